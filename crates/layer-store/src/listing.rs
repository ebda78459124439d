//! What is in a store, for people. It locks and changes nothing, so it works beside a running
//! service.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use layer_unpack::directory;
use rustix::fs::{AtFlags, CWD, FileType, statat};

use crate::collect::was_unused_for;
use crate::container;
use crate::directory::{entries, name_of};
use crate::error::Error;
use crate::mountinfo;
use crate::name::LayerName;

/// How many bytes are in one of the blocks that `stat(2)` counts.
const BLOCK_BYTES: u64 = 512;

/// A layer in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is called.
    pub name: LayerName,
    /// What its files take on disk.
    pub disk_bytes: u64,
    /// Where containers have it mounted; their directory in the store for those that this process
    /// sees no mount of.
    pub users: Vec<PathBuf>,
    /// When it was last found by a pull, or left by a container.
    pub last_used: SystemTime,
}

impl Listed {
    /// Whether [`Store::collect`](crate::store::Store::collect) would remove it.
    pub fn is_unused_for(&self, time: Duration) -> bool {
        self.users.is_empty() && was_unused_for(self.last_used, time)
    }
}

/// Lists the layers of a store by their names. Blocks.
///
/// # Errors
///
/// [`Error::File`] where there is no store or it cannot be read.
pub fn list(store: &Path) -> Result<Vec<Listed>, Error> {
    let users = users(store)?;
    let directory = store.join("layers");
    let mut layers = Vec::new();
    for path in entries(&directory)? {
        let name = name_of(&path);
        let Some(called) = LayerName::of_file(&name) else {
            continue;
        };
        let measured = fs::metadata(&path)
            .and_then(|metadata| metadata.modified())
            .and_then(|used| Ok((used, disk_bytes(&path)?)));
        let (last_used, disk_bytes) = match measured {
            // Removed while this looked.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other.map_err(Error::file("measure", &path))?,
        };
        layers.push(Listed {
            users: users.get(&name).cloned().unwrap_or_default(),
            name: called,
            disk_bytes,
            last_used,
        });
    }
    layers.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(layers)
}

/// The users of each layer.
fn users(store: &Path) -> Result<HashMap<String, Vec<PathBuf>>, Error> {
    let mounts = mountinfo::here().map_err(Error::file("read", "/proc/self/mountinfo"))?;
    let mut users: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for container in entries(&store.join("containers"))? {
        let user = mounts.get(&name_of(&container)).unwrap_or(&container);
        // Without a list it is in the making, or ends.
        let layers: HashSet<_> =
            container::recorded(&container).unwrap_or_default().into_iter().collect();
        for layer in layers {
            users.entry(layer).or_default().push(user.clone());
        }
    }
    Ok(users)
}

/// What a tree takes on disk, however deep it is: names are kept, and two directories are open.
fn disk_bytes(path: &Path) -> io::Result<u64> {
    let mut directory = directory::open(CWD, path.as_os_str().as_encoded_bytes())?;
    let mut linked = HashSet::new();
    let (mut bytes, below) = measure(&directory, &mut linked)?;
    let mut left = vec![below];
    while let Some(known) = left.last_mut() {
        if let Some(child) = known.pop() {
            directory = directory::open(&directory, child.as_bytes())?;
            let (more, below) = measure(&directory, &mut linked)?;
            bytes += more;
            left.push(below);
            continue;
        }
        left.pop();
        if !left.is_empty() {
            directory = directory::open(&directory, b"..")?;
        }
    }
    Ok(bytes)
}

/// What a directory's entries take, each file once however many names it has; and the names of its
/// directories.
fn measure(directory: &OwnedFd, linked: &mut HashSet<u64>) -> io::Result<(u64, Vec<CString>)> {
    let (mut bytes, mut below) = (0, Vec::new());
    for entry in directory::entries(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory {
            below.push(name.to_owned());
        } else if stat.st_nlink > 1 && !linked.insert(stat.st_ino) {
            continue;
        }
        bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK_BYTES;
    }
    Ok((bytes, below))
}
