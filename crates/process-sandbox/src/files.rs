//! Files, by Landlock.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};

use crate::Error;
use crate::error::failed;

/// The newest Landlock whose rights are asked for; an older kernel enforces what it knows.
const LANDLOCK: ABI = ABI::V6;

/// What may be done below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Open files for reading, list directories.
    Read,
    /// Make, write, read, rename and remove plain files, list directories.
    Files,
    /// Remove files of every kind, device nodes too, or move them to where [`Grant::Taken`] is.
    Remove,
    /// Take files and block devices' nodes from where [`Grant::Remove`] is, for good.
    Taken,
    /// Make, rename and remove directories, at any depth; nothing about files in them.
    Directories,
    /// Make, write, read, link and remove files of every kind, device nodes too, and directories.
    /// Nothing is executed, and no device is told anything.
    Tree,
}

impl Grant {
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Self::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
            Self::Files => {
                Self::Read.rights()
                    | make_bitflags!(AccessFs::{MakeReg | WriteFile | Truncate | RemoveFile})
            }
            Self::Remove => make_bitflags!(AccessFs::{RemoveFile | Refer}),
            Self::Taken => make_bitflags!(AccessFs::{MakeBlock | MakeReg | Refer}),
            Self::Directories => make_bitflags!(AccessFs::{MakeDir | RemoveDir}),
            Self::Tree => {
                Self::Files.rights()
                    | Self::Directories.rights()
                    | make_bitflags!(AccessFs::{
                        MakeChar | MakeBlock | MakeFifo | MakeSock | MakeSym | Refer
                    })
            }
        }
    }
}

/// How much of the wall the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforced {
    /// All of it.
    Full,
    /// What an older Landlock knows: all that is asked for here about files, less about ioctls,
    /// network and signals.
    Partial,
    /// Nothing: the kernel has no Landlock, or too old a one, or it is not enabled.
    Absent,
}

impl fmt::Display for Enforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Partial => "partial (an older kernel)",
            Self::Absent => "absent (the kernel has no Landlock that serves)",
        })
    }
}

/// Forbids access to files, TCP sockets, and other processes' abstract sockets and signals, except
/// for `grants`.
///
/// Descriptors that are open stay usable. A grant follows its directory, so it holds after a
/// rename.
///
/// The first Landlock cannot allow links from one directory to another. There, a [`Grant::Tree`]
/// makes this do nothing.
///
/// # Errors
///
/// The kernel refuses a step. A kernel without Landlock is not an error; the result says so.
pub fn confine(grants: &[(BorrowedFd<'_>, Grant)]) -> Result<Enforced, Error> {
    if grants.iter().any(|(_, grant)| *grant == Grant::Tree) && !knows_links() {
        return Ok(Enforced::Absent);
    }
    // One rule for each directory that is open once: a rule costs as much as opening a file.
    let mut rules = BTreeMap::new();
    for (directory, grant) in grants {
        let rule = rules.entry(directory.as_raw_fd()).or_insert((directory, BitFlags::EMPTY));
        rule.1 |= grant.rights();
    }
    let rules = rules.into_values().map(|(directory, rights)| PathBeneath::new(directory, rights));
    let restrict = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?
            .add_rules(rules.map(Ok::<_, RulesetError>))?
            .restrict_self()
    };
    let status = restrict().map_err(failed("Landlock"))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Full,
        RulesetStatus::PartiallyEnforced => Enforced::Partial,
        RulesetStatus::NotEnforced => Enforced::Absent,
    })
}

/// Whether the kernel's Landlock can allow a link from one directory to another: since Linux 5.19.
fn knows_links() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .is_ok()
}
