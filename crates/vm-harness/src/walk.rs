//! A tree as it can be seen: everything about every file, in a form that two trees can be compared
//! in.

#![expect(clippy::unwrap_used, reason = "a tree that cannot be looked at ends the test")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::fs::{lgetxattr, llistxattr};
use sha2::{Digest as _, Sha256};

/// What is to be seen of a file: names of properties and their values.
pub type Seen = BTreeMap<String, String>;

/// Walks a tree. Paths are shown as escaped text; the root is `.`.
///
/// # Panics
///
/// Where the tree cannot be looked at.
pub fn walk(root: &Path) -> BTreeMap<String, Seen> {
    let mut found = BTreeMap::new();
    let mut first_names: HashMap<(u64, u64), String> = HashMap::new();
    let mut names = vec![PathBuf::from(".")];
    let mut next = 0;
    while next < names.len() {
        let name = names[next].clone();
        next += 1;
        if stat_of(&root.join(&name)).is_some_and(|stat| stat.is_dir()) {
            let entries = fs::read_dir(root.join(&name)).unwrap();
            names.extend(entries.map(|entry| name.join(entry.unwrap().file_name())));
        }
    }
    // In this order, so that the first name of a linked file is the same in both trees.
    names.sort();
    for name in names {
        let shown = shown(name.strip_prefix("./").unwrap_or(&name).as_os_str().as_bytes());
        let Some(stat) = stat_of(&root.join(&name)) else {
            let ghost = ("kind".to_owned(), "listed but not there".to_owned());
            found.insert(shown, Seen::from([ghost]));
            continue;
        };
        let mut seen = look(&root.join(&name), &stat);
        if !stat.is_dir() && stat.nlink() > 1 {
            let inode = (stat.dev(), stat.ino());
            let first = first_names.entry(inode).or_insert_with(|| shown.clone());
            seen.insert("same file as".into(), first.clone());
        }
        found.insert(shown, seen);
    }
    found
}

/// Bytes as text that tells them apart.
fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn stat_of(path: &Path) -> Option<fs::Metadata> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        found => Some(found.unwrap()),
    }
}

fn look(path: &Path, stat: &fs::Metadata) -> Seen {
    let kind = stat.file_type();
    let mut seen = Seen::new();
    let mut say = |what: &str, value: String| seen.insert(what.to_owned(), value);
    let word = match () {
        () if kind.is_dir() => "directory",
        () if kind.is_file() => "file",
        () if kind.is_symlink() => "symlink",
        () if kind.is_char_device() => "character device",
        () if kind.is_block_device() => "block device",
        () if kind.is_fifo() => "fifo",
        () => "something else",
    };
    say("kind", word.to_owned());
    say("mode", format!("{:04o}", stat.mode() & 0o7777));
    say("owner", format!("{}:{}", stat.uid(), stat.gid()));
    // What nobody says is when a directory without an entry was made.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let age = i64::try_from(now.as_secs()).unwrap() - stat.mtime();
    let mtime = format!("{}.{:09}", stat.mtime(), stat.mtime_nsec());
    let is_new = (0..3600).contains(&age);
    say("mtime", if is_new { "now".to_owned() } else { mtime });
    if !kind.is_dir() {
        say("links", stat.nlink().to_string());
    }
    if kind.is_file() {
        say("size", stat.size().to_string());
        say("content", content(path));
    }
    if kind.is_char_device() || kind.is_block_device() {
        say("device", format!("{:#x}", stat.rdev()));
    }
    if kind.is_symlink() {
        let target = fs::read_link(path).unwrap().into_os_string();
        say("target", shown(target.as_bytes()));
    }
    for name in xattr_names(path) {
        let mut value = Vec::with_capacity(64 << 10);
        lgetxattr(path, &name, spare_capacity(&mut value)).unwrap();
        say(&format!("xattr {}", shown(name.as_bytes())), shown(&value));
    }
    seen
}

fn xattr_names(path: &Path) -> Vec<OsString> {
    let mut names = Vec::with_capacity(64 << 10);
    llistxattr(path, spare_capacity(&mut names)).unwrap();
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.map(|name| OsString::from_vec(name.to_vec())).collect()
}

/// The hash of a file's content, read in pieces because files with holes may be large.
fn content(path: &Path) -> String {
    let mut hasher = Sha256::new();
    let mut file = fs::File::open(path).unwrap();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
