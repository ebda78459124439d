//! What a row of the table says: disks, and what has to become of them.

use std::collections::BTreeMap;

/// The marker of what no log, policy or error file may show.
pub const SECRET: &str = "uu7Hq-content-of-a-disk";

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// One machine.
#[derive(Clone)]
pub struct Row {
    pub name: String,
    pub disks: Vec<Disk>,
    /// What is below `measured-cfg`.
    pub initdata: Expected,
    /// What is below `insecure-cfg`.
    pub configuration: Expected,
    /// How many bytes of a document the TOML parser sees.
    pub parsed: usize,
    /// Whether it is one of the selection that runs in guests.
    pub in_guests: bool,
}

/// What has to become of one of the two documents.
#[derive(Clone, Debug)]
pub enum Expected {
    /// These files, and no others.
    Placed(Files),
    /// No files.
    Absent,
    /// The policy or the error file, with these words in it.
    Refused(Vec<&'static str>),
}

impl Expected {
    pub fn refused(words: &[&'static str]) -> Self {
        Self::Refused(words.to_vec())
    }

    /// How many bytes are placed.
    fn length(&self) -> usize {
        match self {
            Self::Placed(files) => files.values().map(Vec::len).sum(),
            _ => 0,
        }
    }
}

/// One block device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pub shape: Shape,
}

/// What is odd about a block device beside its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// Nothing.
    Whole,
    /// It is a partition.
    Partition,
    /// It can be taken out.
    Removable,
    /// A path of another disk: without a node.
    Hidden,
    /// It has no hardware below.
    Virtual,
    /// sysfs gives this size, in sectors.
    Claims(u64),
    /// Reads fail from this byte on.
    UnreadableFrom(u64),
    /// Its node is missing.
    NoNode,
    /// Its node is a pipe that nobody writes to.
    Pipe,
    /// Its node is a directory.
    Directory,
}

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, shape: Shape::Whole }
    }

    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    pub fn is_unreadable(&self) -> bool {
        matches!(self.shape, Shape::UnreadableFrom(_))
    }
}

impl Row {
    /// Whether plain files can stand for its disks.
    pub fn on_files(&self) -> bool {
        !self.disks.iter().any(Disk::is_unreadable)
    }

    /// Whether block devices can: whole sectors, and a node.
    pub fn on_loops(&self) -> bool {
        self.disks.iter().all(|disk| {
            let device = !matches!(
                disk.shape,
                // The program is told to look at loop devices, which have no hardware.
                Shape::Virtual
                    | Shape::Hidden
                    | Shape::Claims(_)
                    | Shape::NoNode
                    | Shape::Pipe
                    | Shape::Directory
            );
            device && disk.bytes.len().is_multiple_of(512)
        })
    }

    /// The most address space, in bytes, that the program may use.
    ///
    /// The kernel enforces it, so nothing is measured: who allocates by a number from a disk is
    /// refused and aborts.
    pub fn address_space(&self) -> u64 {
        const SMALL: usize = 64 << 10;
        // Of each byte of a document the TOML parser makes some seven bytes of tokens before it
        // looks at one.
        const PARSER: usize = 12;
        let disks = self.disks.iter().map(|disk| disk.bytes.len());
        let lengths = disks.chain([self.parsed, self.configuration.length()]);
        let base = if lengths.max() <= Some(SMALL) { 8 << 20 } else { 24 << 20 };
        (base + PARSER * self.parsed) as u64
    }

    pub fn exit_code(&self) -> i32 {
        // A configuration that is refused keeps nobody off.
        if matches!(self.initdata, Expected::Refused(_)) { 65 } else { 0 }
    }
}
