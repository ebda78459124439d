//! Which containers are mounted, as the kernel says it.
//!
//! See `proc_pid_mountinfo(5)`: a line for each mount, fields between spaces, of which the source
//! matters here. Spaces and the like are written in octal, but a name that this program gave has
//! none.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::container::SOURCE_PREFIX;

/// How often the list is read again because mounts came and went meanwhile.
const MAX_TRIES: usize = 20;

/// The containers that are mounted.
pub(crate) type Mounted = HashSet<String>;

/// Those in this process's mount namespace. Blocks.
pub(crate) fn here() -> io::Result<Mounted> {
    Ok(parse(&read(Path::new("/proc/self/mountinfo"))?))
}

/// Those in the mount namespaces of all other processes: that of a container that still runs, for
/// one. Blocks.
pub(crate) fn elsewhere() -> io::Result<Mounted> {
    let mut seen = HashSet::from([fs::read_link("/proc/self/ns/mnt")?]);
    let mut mounted = Mounted::new();
    for process in numbered(Path::new("/proc"))? {
        let tasks = match numbered(&process.join("task")) {
            Err(error) if is_gone(&error) => continue,
            tasks => tasks?,
        };
        for task in tasks {
            let namespace = fs::read_link(task.join("ns/mnt"));
            if namespace.as_ref().is_err_and(is_gone) {
                continue;
            }
            // What cannot be told apart is read twice.
            if namespace.is_ok_and(|namespace| !seen.insert(namespace)) {
                continue;
            }
            match read(&task.join("mountinfo")) {
                Ok(text) => mounted.extend(parse(&text)),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(mounted)
}

/// Entries with a number as their name.
fn numbered(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_number = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
    };
    let paths: io::Result<Vec<_>> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    Ok(paths?.into_iter().filter(is_number).collect())
}

/// Whether the process ended; a zombie has no namespace any more.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH, Errno::INVAL];
    Errno::from_io_error(error).is_some_and(|errno| gone.contains(&errno))
}

/// Reads the list as it was at one moment.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    for _ in 0..MAX_TRIES {
        let mut text = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        let mut changed = [PollFd::new(&file, PollFlags::PRI)];
        if poll(&mut changed, Some(&Timespec::default()))? == 0 {
            return Ok(text);
        }
    }
    let text = format!("{} changes all the time", path.display());
    Err(io::Error::new(ErrorKind::ResourceBusy, text))
}

fn parse(text: &[u8]) -> Mounted {
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

fn line(line: &[u8]) -> Option<String> {
    // Optional fields end with a hyphen; then come type, source and options.
    let fields = line.split(|&byte| byte == b' ').skip(5);
    let source = fields.skip_while(|field| *field != b"-").nth(2)?;
    let name = source.strip_prefix(SOURCE_PREFIX.as_bytes())?;
    String::from_utf8(name.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_our_mounts_are_found_among_others() {
        let text = b"22 1 0:20 / /proc rw - proc proc rw\n\
            44 30 0:39 / /run/a\\040b\\134c/rootfs rw,relatime shared:2 master:1 - overlay \
            imagepuller-0a rw,lowerdir=3\n\
            45 30 0:40 / /run/b/rootfs rw - overlay imagepuller-0b rw\n\
            46 30 0:41 / /imagepuller-0c rw - overlay overlay rw\n\
            broken\n";
        let mut found: Vec<_> = parse(text).into_iter().collect();
        found.sort();
        assert_eq!(found, ["0a", "0b"]);
        assert!(here().is_ok());
        assert!(elsewhere().is_ok());
    }
}
