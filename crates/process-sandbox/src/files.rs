//! Files, by Landlock.

use std::fmt;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
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
            Self::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Self::Files => {
                AccessFs::ReadFile
                    | AccessFs::ReadDir
                    | AccessFs::MakeReg
                    | AccessFs::WriteFile
                    | AccessFs::Truncate
                    | AccessFs::RemoveFile
            }
            Self::Remove => AccessFs::RemoveFile | AccessFs::Refer,
            Self::Taken => AccessFs::MakeBlock | AccessFs::MakeReg | AccessFs::Refer,
            Self::Directories => AccessFs::MakeDir | AccessFs::RemoveDir,
            Self::Tree => {
                Self::Files.rights()
                    | Self::Directories.rights()
                    | AccessFs::MakeChar
                    | AccessFs::MakeBlock
                    | AccessFs::MakeFifo
                    | AccessFs::MakeSock
                    | AccessFs::MakeSym
                    | AccessFs::Refer
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
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .map_err(failed("Landlock"))?;
    for (directory, rights) in rights_by_directory(grants) {
        rules = rules.add_rule(PathBeneath::new(directory, rights)).map_err(failed("Landlock"))?;
    }
    let status = rules.restrict_self().map_err(failed("Landlock"))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Full,
        RulesetStatus::PartiallyEnforced => Enforced::Partial,
        RulesetStatus::NotEnforced => Enforced::Absent,
    })
}

/// One rule for each directory that is open once: a rule costs as much as opening a file.
fn rights_by_directory<'fd>(
    grants: &[(BorrowedFd<'fd>, Grant)],
) -> Vec<(BorrowedFd<'fd>, BitFlags<AccessFs>)> {
    let mut rules: Vec<(BorrowedFd<'fd>, BitFlags<AccessFs>)> = Vec::with_capacity(grants.len());
    for (directory, grant) in grants {
        let number = directory.as_raw_fd();
        match rules.iter_mut().find(|rule| rule.0.as_raw_fd() == number) {
            Some((_, rights)) => *rights |= grant.rights(),
            None => rules.push((*directory, grant.rights())),
        }
    }
    rules
}

/// Whether the kernel's Landlock can allow a link from one directory to another: since Linux 5.19.
fn knows_links() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .is_ok()
}
