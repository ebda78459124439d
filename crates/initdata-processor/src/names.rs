//! The names in an open directory, without the allocations of `std`'s list, and without opening the
//! directory once more.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, statat};

/// Room for some names at a time; the longest takes less than 300.
const BUFFER_BYTES: usize = 4096;

/// Calls `each` with every name in `directory`, in its own order, and with what it is.
///
/// # Errors
///
/// Those of listing, and those of `each`, after which nothing follows.
pub fn each(
    directory: impl AsFd,
    mut each: impl FnMut(&CStr, FileType) -> io::Result<()>,
) -> io::Result<()> {
    let directory = directory.as_fd();
    seek(directory, SeekFrom::Start(0))?;
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not say.
            FileType::Unknown => {
                let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        each(name, kind)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn more_names_than_there_is_room_for() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected: Vec<String> = (0..100).map(|n| format!("{n:0200}")).collect();
        for name in &expected[1..] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        fs::create_dir(directory.path().join(&expected[0])).unwrap();
        let open = File::open(directory.path()).unwrap();
        // As often as one likes.
        for _ in 0..2 {
            let mut found = Vec::new();
            let listed = each(&open, |name, kind| {
                found.push(name.to_str().unwrap().to_owned());
                assert_eq!(kind == FileType::Directory, *found.last().unwrap() == expected[0]);
                Ok(())
            });
            listed.unwrap();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
        let ended = each(&open, |_, _| Err(io::ErrorKind::Other.into()));
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::Other);
        assert!(each(File::open("/dev/null").unwrap(), |_, _| Ok(())).is_err());
    }
}
