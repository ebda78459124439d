//! The initrd that boots: the caller's, and behind it an archive with the stand-in.
//!
//! The kernel takes archives one behind the other, and a file of a later one replaces that of an
//! earlier one (`Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use cpio::newc;

use crate::seen::{FOLDER, Job};

/// The largest initrd, the largest root directory that is packed, and the most that is unpacked, so
/// that a bomb ends early.
pub const MAX_BYTES: u64 = 4 << 30;

const DIRECTORY: u32 = 0o040_000;
pub(crate) const FILE: u32 = 0o100_000;
pub(crate) const LINK: u32 = 0o120_000;

/// Where archives begin behind one another.
const ALIGNMENT: usize = 512;

/// Puts the stand-in at `agent`, and its job, behind `initrd`.
///
/// # Errors
///
/// Where the archive cannot be made.
pub fn with_agent(mut initrd: Vec<u8>, agent: &Path, program: &[u8], job: &Job) -> Result<Vec<u8>> {
    initrd.resize(initrd.len().next_multiple_of(ALIGNMENT), 0);
    // No folder that the image has: that would replace a link, such as /bin, by a folder.
    add(&mut initrd, Path::new(FOLDER), DIRECTORY | 0o755, b"")?;
    let job = serde_json::to_vec(job)?;
    add(&mut initrd, &Path::new(FOLDER).join("job.json"), FILE | 0o644, &job)?;
    add(&mut initrd, agent, FILE | 0o755, program)?;
    Ok(newc::trailer(initrd)?)
}

/// Packs a root directory: everything belongs to root, device nodes are left out.
///
/// # Errors
///
/// Where it cannot be read, or is too large.
pub fn pack(root: &Path) -> Result<Vec<u8>> {
    let mut archive = Vec::new();
    let mut names = BTreeSet::from([PathBuf::new()]);
    while let Some(name) = names.pop_first() {
        let path = root.join(&name);
        let stat = path.symlink_metadata().with_context(|| path.display().to_string())?;
        let mode = stat.permissions().mode() & 0o7777;
        let kind = stat.file_type();
        if kind.is_dir() {
            if !name.as_os_str().is_empty() {
                add(&mut archive, &name, DIRECTORY | mode, b"")?;
            }
            for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
                names.insert(name.join(entry?.file_name()));
            }
        } else if kind.is_symlink() {
            let target = fs::read_link(&path)?;
            add(&mut archive, &name, LINK | 0o777, target.as_os_str().as_bytes())?;
        } else if kind.is_file() {
            let length = archive.len() as u64 + stat.len();
            ensure!(length <= MAX_BYTES, "{} is larger than 4 GiB", root.display());
            let content = fs::read(&path).with_context(|| path.display().to_string())?;
            add(&mut archive, &name, FILE | mode, &content)?;
        }
    }
    Ok(newc::trailer(archive)?)
}

/// The kernel parameter that starts the first program of a packed root; none where it is `/init`.
#[must_use]
pub fn first_program(root: &Path) -> Option<String> {
    let is_there = |name: &str| root.join(name).symlink_metadata().is_ok();
    (!is_there("init")).then(|| "rdinit=/sbin/init".to_owned())
}

fn add(archive: &mut Vec<u8>, name: &Path, mode: u32, content: &[u8]) -> Result<()> {
    let name = name.strip_prefix("/").unwrap_or(name);
    let name = name.to_str().with_context(|| format!("{name:?} is not UTF-8"))?;
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    // Without hard links nobody asks for the number of an inode.
    let mut entry = newc::Builder::new(name).mode(mode).nlink(1).write(archive, size);
    entry.write_all(content)?;
    entry.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::unpack;

    #[test]
    fn what_is_packed_is_unpacked_with_the_agent_over_it() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("usr/bin")).unwrap();
        symlink("usr/bin", path("bin")).unwrap();
        fs::write(path("usr/bin/kata-agent"), "the image's").unwrap();
        fs::write(path("init"), "first").unwrap();
        assert_eq!(first_program(root.path()), None);
        let packed = pack(root.path()).unwrap();
        let job = Job::default();
        let agent = Path::new("/usr/bin/kata-agent");
        let both = with_agent(packed, agent, b"the stand-in", &job).unwrap();

        let folder = tempfile::tempdir().unwrap();
        unpack::unpack(&both, folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("bin/kata-agent"), "the stand-in");
        assert_eq!(read("init"), "first");
        assert!(read(".configdev-smoke/job.json").contains("\"image\":null"));
    }
}
