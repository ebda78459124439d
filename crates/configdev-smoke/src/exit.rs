//! What the exit codes mean.

/// What a part of the image is for; the order is that of a boot, and the first that fails is the
/// exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Kernel and first programs, up to the agent.
    Boot = 1,
    /// Drivers of disks and network.
    Drivers = 2,
    /// What the processor said, and the files that it left.
    Processor = 3,
    /// Guest components, sockets, and the agent's connection.
    Sockets = 4,
    /// What the puller needs of the guest: memory file systems, the clock.
    Surroundings = 5,
    /// The pull.
    Pull = 6,
    /// What `check-image` found.
    Image = 7,
}

/// Everything is as expected.
pub const FINE: u8 = 0;
/// The command line is wrong.
pub const USAGE: u8 = 64;
/// A file that was named cannot be read.
pub const NO_INPUT: u8 = 66;
/// Something is missing here: QEMU, the wrapper, the stand-in.
pub const UNAVAILABLE: u8 = 69;
/// A result cannot be written.
pub const CANNOT_CREATE: u8 = 73;
/// Time, or the console's length, ran out before the agent was done.
pub const LIMIT: u8 = 124;

/// For `--help`.
pub const TEXT: &str = "\
Exit codes, where several apply the first of 1 to 7:
    0  the image does what was expected
    1  boot: the kernel or a first program ended before there was an agent
    2  drivers: disks or the network are missing
    3  processor: verdict, policy or files are not as expected
    4  sockets: the agent has nobody to ask, or asks somebody else
    5  surroundings: /run is not in memory, or the clock is wrong
    6  pull: no image, or one where none was to be
    7  only check-image found an error
   64  wrong command line
   66  a file that was named cannot be read
   69  QEMU, the wrapper or the stand-in is missing here, or does not start
   73  a result cannot be written
  124  --timeout passed, or the console said too much, before the agent was done
  130, 143  interrupted; processes and temporary files are gone";
