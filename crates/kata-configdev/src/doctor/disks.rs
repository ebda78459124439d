//! The further disks of the settings.

use super::finding::{Finding, Severity};
use super::node::{Node, is_denied};
use super::set::Set;
use super::settings::{of_sandboxes, place};
use crate::SandboxError;
use crate::further_disk::{self, FurtherDisk, FurtherDiskError, FurtherMagic};
use crate::host_file::require_administered;

/// Whether every further disk of the settings can be filled: without it no sandbox starts.
pub fn check(node: &Node, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(effective) = &set.effective else {
        return;
    };
    if !effective.settings.enabled {
        return;
    }
    for (magic, disk) in &effective.settings.disks {
        let filled = fill(node, *magic, disk);
        if matches!(&filled, Err(FurtherDiskError::Source(_, error)) if is_denied(&error.fault)) {
            continue;
        }
        if let Err(error) = filled {
            let (path, line) = place(set, effective.origins.of(&format!("disks.{magic}")));
            let error = SandboxError::from(error);
            let finding = of_sandboxes("disk-source", Severity::Fault, path, &error);
            findings.push(finding.at_line(line));
        }
    }
}

fn fill(node: &Node, magic: FurtherMagic, disk: &FurtherDisk) -> Result<(), FurtherDiskError> {
    let read = node
        .read_file(&disk.source, disk.max_bytes)
        .and_then(|(content, metadata)| require_administered(&metadata).map(|()| content));
    let content = read.map_err(|fault| FurtherDiskError::Source(magic, fault.at(&disk.source)))?;
    further_disk::pack(magic, &disk.source, &content).map(|_| ())
}
