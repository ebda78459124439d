//! The disk as an encrypted and authenticated volume, whose key and header are in memory only.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use linux_sys::locked::Locked;
use rustix::fs::{Mode, OFlags, ftruncate, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::Error;
use crate::find::{Disk, EMPTY_BYTES};
use crate::{table, tool};

/// What the mapping is called; `cryptsetup` calls the one below it `NAME_dif`.
const NAME: &str = "imagepuller-scratch";
const INTEGRITY_NAME: &str = "imagepuller-scratch_dif";

/// The passphrase: as many random bits as the volume's own keys for AES have.
const KEY_BYTES: usize = 64;

/// Room for a LUKS2 header; what is not written takes none.
const HEADER_BYTES: u64 = 16 << 20;

/// Formats the disk with new keys and opens it; gives the node of the mapping.
///
/// The header, which has the volume's keys wrapped by the passphrase, is in a file system of memory
/// that is never swapped and has no path. It and the passphrase are gone afterwards: the kernel
/// alone can open the volume, until it ends.
pub(crate) fn open(disk: &Disk) -> Result<PathBuf, Error> {
    refuse_swap()?;
    let key = new_key().map_err(Error::Key)?;
    let header = Header::new().map_err(Error::file("make a header of", &disk.node))?;
    let offset = (EMPTY_BYTES / 512).to_string();
    let node = disk.node.to_string_lossy();
    let common = [
        "--batch-mode",
        "--type",
        "luks2",
        "--header",
        tool::FILE_PATH,
    ];
    let key_file = ["--key-file", "-", "--integrity-no-journal", &*node];
    let format = [
        "--cipher",
        "aes-xts-plain64",
        "--key-size",
        "512",
        "--integrity",
        "hmac-sha256",
        "--integrity-no-wipe",
        "--sector-size",
        "4096",
        "--offset",
        &offset,
        // A passphrase of so many random bits needs no stretching.
        "--pbkdf",
        "pbkdf2",
        "--pbkdf-force-iterations",
        "1000",
    ];
    let arguments = [&["luksFormat"][..], &common, &format, &key_file].concat();
    tool::run_with_file(
        "cryptsetup",
        "cannot format the scratch disk",
        arguments,
        &key,
        &header.0,
    )?;
    let arguments = [&["open"][..], &common, &key_file, &[NAME]].concat();
    tool::run_with_file(
        "cryptsetup",
        "cannot open the scratch disk",
        arguments,
        &key,
        &header.0,
    )?;
    let checked = (|| {
        let table = |name| tool::run("dmsetup", "cannot show a table", ["table", name], b"");
        table::check(&table(NAME)?, &table(INTEGRITY_NAME)?, &disk.numbers)
    })();
    checked.inspect_err(|_| close())?;
    Ok(PathBuf::from("/dev/mapper").join(NAME))
}

/// Closes the volume again. What hinders that is not told: there is an error to report already.
pub(crate) fn close() {
    let _ = tool::run("cryptsetup", "cannot close it", ["close", NAME], b"");
}

/// A guest with swap space would hand keys to whoever has the disk below it.
fn refuse_swap() -> Result<(), Error> {
    let path = "/proc/swaps";
    let swaps = fs::read_to_string(path).map_err(Error::file("read", path))?;
    // The first line says what the columns are.
    if swaps.lines().count() > 1 {
        return Err(Error::Swap);
    }
    Ok(())
}

fn new_key() -> std::io::Result<Locked> {
    let mut key = Locked::copy_of(&[0; KEY_BYTES])?;
    let length = getrandom(key.bytes_mut(), GetRandomFlags::empty())?;
    if length == KEY_BYTES {
        Ok(key)
    } else {
        Err(std::io::Error::other("too few random bytes"))
    }
}

/// A header in memory, zeroed when dropped.
struct Header(File);

impl Header {
    fn new() -> std::io::Result<Self> {
        let context = fsopen("ramfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let nothing_runs = MountAttrFlags::MOUNT_ATTR_NOEXEC | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mounted = fsmount(&context, flags, nothing_runs)?;
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(&mounted, "header", flags, Mode::RUSR | Mode::WUSR)?;
        ftruncate(&file, HEADER_BYTES)?;
        Ok(Self(file.into()))
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        let zeros = [0; 1 << 16];
        let mut written = std::io::Seek::rewind(&mut self.0);
        for _ in 0..HEADER_BYTES / zeros.len() as u64 {
            written = written.and_then(|()| self.0.write_all(&zeros));
        }
        if let Err(error) = written {
            tracing::warn!(%error, "the header of the scratch disk is not zeroed");
        }
    }
}
