//! What in a layer other programs read in another way, and what is refused: for people who build
//! images. Reads the archive and makes no files.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use bytes::Bytes;

use super::archive::{Archive, Entry, EntryKind, MAX_ENTRIES, Oddity};
use super::archive_error::shown;
use super::chunks::Chunks;
use super::compression::{self, Decoder, MIN_BUFFER_BYTES};
use super::tree::{ENTRY_BYTES, EntryPath};
use super::unpack::{AUFS, OPAQUE, WHITEOUT};

/// The most bytes of names that are kept to compare entries, with [`ENTRY_BYTES`] for each.
const MAX_NAMES_BYTES: usize = 512 << 20;

/// The most remarks about one layer.
const MAX_REMARKS: usize = 10_000;

/// Something about an entry, or about the layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The entry's name, cut; `None` for the layer.
    pub path: Option<String>,
    /// What it is about.
    pub what: What,
}

/// What a remark is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The layer is refused here: nothing more of it was read.
    Refused(String),
    /// The header is one that not every program reads in the same way.
    Odd(Oddity),
    /// The last entry lacks the zeros that fill its last block.
    Unpadded,
    /// An entry of the same name came before.
    Again,
    /// It lies below a symbolic link of this layer.
    BelowLink(String),
    /// It hides what this layer has.
    HidesOwn(String),
    /// It makes a directory opaque of which entries came before.
    LateOpaque,
    /// It is bookkeeping of aufs.
    Aufs,
    /// A device that overlayfs takes for a whiteout.
    WhiteoutDevice,
    /// It begins with `/`.
    Absolute,
    /// There are more names than are compared.
    ManyNames,
    /// There are more remarks than are kept.
    ManyRemarks,
}

impl What {
    /// Whether the layer cannot be used.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Refused(why) => return write!(f, "refused: {why}"),
            Self::Odd(oddity) => return oddity.fmt(f),
            Self::BelowLink(link) => {
                return write!(
                    f,
                    "lies below the symbolic link {link:?} of this layer; programs that follow no \
                    link make a directory of it"
                );
            }
            Self::HidesOwn(name) => {
                return write!(
                    f,
                    "hides {name:?}, which this layer has before it; that stays here, and programs \
                    that go by the order remove it"
                );
            }
            Self::Unpadded => {
                "the last entry lacks its padding; programs that read whole blocks refuse the layer"
            }
            Self::Again => "is there twice; the last one counts, and some programs refuse it",
            Self::LateOpaque => {
                "makes its directory opaque after entries of it; they stay here, and some programs \
                remove them"
            }
            Self::Aufs => "is bookkeeping of aufs and left out; some programs make a file of it",
            Self::WhiteoutDevice => {
                "is a device 0:0: overlayfs takes it for a whiteout, other programs for a device"
            }
            Self::Absolute => "has an absolute name; it is taken below the root, as most do",
            Self::ManyNames => "there are more names than are compared with each other",
            Self::ManyRemarks => "there is more to say than is listed",
        };
        f.write_str(text)
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimedSize(size) => {
                write!(f, "claims {size} bytes and can have none; some programs skip what follows")
            }
            Self::SignedSum => f.write_str(
                "has a sum of signed bytes, as old programs wrote it; strict programs refuse it",
            ),
            Self::Owner(id) => write!(
                f,
                "has the owner or group {id}, which no file can have; programs make different \
                numbers of it"
            ),
        }
    }
}

/// Looks at a layer, whatever it is compressed with. Says how many entries were read.
#[must_use]
pub fn lint(blob: impl Iterator<Item = Bytes>) -> (u64, Vec<Remark>) {
    let mut lint = Lint::default();
    let entries = match compression::decode(Chunks::new(blob)) {
        Ok(decoder) => lint.read(Plain::new(decoder)),
        Err(error) => {
            lint.refuse(None, &error);
            0
        }
    };
    (entries, lint.remarks)
}

/// What a name of the layer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Also one that has no entry so far, and something lies in it.
    Directory,
    Link,
    Other,
}

#[derive(Default)]
struct Lint {
    names: BTreeMap<Vec<u8>, Seen>,
    bytes: usize,
    remarks: Vec<Remark>,
}

impl Lint {
    fn read(&mut self, plain: impl Read) -> u64 {
        let mut archive = Archive::new(plain, MAX_ENTRIES);
        loop {
            match archive.next_entry() {
                Ok(Some(entry)) => {
                    if !self.look(&entry) {
                        break;
                    }
                }
                Ok(None) => {
                    if !archive.is_padded() {
                        self.remark(None, What::Unpadded);
                    }
                    break;
                }
                Err(error) => {
                    self.refuse(None, &error);
                    break;
                }
            }
        }
        archive.entries()
    }

    /// Looks at one entry; says whether the next one is read.
    fn look(&mut self, entry: &Entry) -> bool {
        for oddity in &entry.oddities {
            self.remark(Some(entry), What::Odd(*oddity));
        }
        let path = match EntryPath::parse(&entry.path) {
            Ok(path) => path,
            Err(rule) => {
                self.remark(Some(entry), What::Refused(rule.to_owned()));
                return false;
            }
        };
        if entry.path.starts_with(b"/") {
            self.remark(Some(entry), What::Absolute);
        }
        if path.is_root() {
            return true;
        }
        if let Some(link) = self.link_above(&path) {
            self.remark(Some(entry), What::BelowLink(link));
        }
        if path.name.starts_with(WHITEOUT) {
            return self.whiteout(entry, &path);
        }
        if entry.kind == EntryKind::CharacterDevice(0, 0) {
            self.remark(Some(entry), What::WhiteoutDevice);
        }
        if let EntryKind::HardLink(target) = &entry.kind
            && !self.has_file(target)
        {
            let rule = "is a hard link to a file that this layer does not have before it";
            self.remark(Some(entry), What::Refused(rule.to_owned()));
            return false;
        }
        let seen = match entry.kind {
            EntryKind::Directory => Seen::Directory,
            EntryKind::Symlink(_) => Seen::Link,
            _ => Seen::Other,
        };
        let before = self.note(path.whole(), seen);
        let is_again = match before {
            None => false,
            // Builders list a directory again, or after what is in it.
            Some(Seen::Directory) => seen != Seen::Directory,
            Some(Seen::Link | Seen::Other) => true,
        };
        if is_again {
            self.remark(Some(entry), What::Again);
        }
        self.note_parents(&path.parent);
        true
    }

    fn whiteout(&mut self, entry: &Entry, path: &EntryPath) -> bool {
        let hidden = &path.name[WHITEOUT.len()..];
        if path.name == OPAQUE {
            if self.has_entries(&path.parent) {
                self.remark(Some(entry), What::LateOpaque);
            }
        } else if path.name.starts_with(AUFS) {
            self.remark(Some(entry), What::Aufs);
        } else if matches!(hidden, b"" | b"." | b"..") {
            let rule = "is a whiteout of nothing; others would remove the directory or its parent";
            self.remark(Some(entry), What::Refused(rule.to_owned()));
            return false;
        } else {
            let of = EntryPath { parent: path.parent.clone(), name: hidden.to_vec() };
            if self.names.contains_key(&of.whole()) {
                self.remark(Some(entry), What::HidesOwn(shown(hidden)));
            }
        }
        true
    }

    /// The first symbolic link of the layer on the way to an entry.
    fn link_above(&self, path: &EntryPath) -> Option<String> {
        let ends = path.parent.iter().enumerate();
        let ends = ends.filter_map(|(at, &byte)| (byte == b'/').then_some(at));
        let mut above = ends.chain([path.parent.len()]).map(|end| &path.parent[..end]);
        let link = above.find(|name| self.names.get(*name) == Some(&Seen::Link))?;
        Some(shown(link))
    }

    /// Whether a hard link's target is there; through symbolic links it may be.
    fn has_file(&self, target: &[u8]) -> bool {
        let Ok(target) = EntryPath::parse(target) else {
            return false;
        };
        self.is_full()
            || self.link_above(&target).is_some()
            || matches!(self.names.get(&target.whole()), Some(Seen::Other | Seen::Link))
    }

    fn has_entries(&self, directory: &[u8]) -> bool {
        let first = match directory {
            b"" => Vec::new(),
            _ => [directory, b"/"].concat(),
        };
        let mut below = self.names.range(first.clone()..);
        below.next().is_some_and(|(name, _)| name.starts_with(&first))
    }

    fn note_parents(&mut self, parent: &[u8]) {
        let mut rest = parent;
        while !rest.is_empty() && !self.names.contains_key(rest) {
            self.note(rest.to_vec(), Seen::Directory);
            let end = rest.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            rest = &rest[..end];
        }
    }

    fn note(&mut self, name: Vec<u8>, seen: Seen) -> Option<Seen> {
        if self.is_full() {
            return None;
        }
        self.bytes += name.len() + ENTRY_BYTES;
        if self.is_full() {
            self.remark(None, What::ManyNames);
        }
        self.names.insert(name, seen)
    }

    fn is_full(&self) -> bool {
        self.bytes > MAX_NAMES_BYTES
    }

    fn refuse(&mut self, entry: Option<&Entry>, error: &dyn std::error::Error) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        self.remark(entry, What::Refused(text));
    }

    fn remark(&mut self, entry: Option<&Entry>, what: What) {
        let is_refusal = what.is_refusal();
        let (path, what) = match self.remarks.len() {
            // A refusal is the last one, and always said.
            MAX_REMARKS if !is_refusal => (None, What::ManyRemarks),
            more if more > MAX_REMARKS && !is_refusal => return,
            _ => (entry.map(|entry| shown(&entry.path)), what),
        };
        self.remarks.push(Remark { path, what });
    }
}

/// The decoder as a stream.
struct Plain<R: io::BufRead> {
    decoder: Decoder<R>,
    buffer: Vec<u8>,
    left: std::ops::Range<usize>,
}

impl<R: io::BufRead> Plain<R> {
    fn new(decoder: Decoder<R>) -> Self {
        Self { decoder, buffer: vec![0; 2 * MIN_BUFFER_BYTES], left: 0..0 }
    }
}

impl<R: io::BufRead> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() {
            self.left = self.decoder.fill(&mut self.buffer)?;
        }
        let length = buffer.len().min(self.left.len());
        let end = self.left.start + length;
        buffer[..length].copy_from_slice(&self.buffer[self.left.start..end]);
        self.left.start = end;
        Ok(length)
    }
}
