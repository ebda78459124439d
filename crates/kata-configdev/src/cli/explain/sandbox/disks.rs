//! What the node gives a sandbox besides its document: further disks.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::explain::Row;
use crate::further_disk::{self, FurtherDisk, FurtherMagic};

/// A further disk of the settings.
#[derive(Serialize)]
pub(super) struct FurtherReport {
    magic: FurtherMagic,
    source: PathBuf,
    serial: String,
    /// How many bytes the guest gets; `None` with a fault.
    bytes: Option<usize>,
    /// Why no sandbox starts.
    pub(super) fault: Option<String>,
}

impl FurtherReport {
    pub(super) fn of(magic: FurtherMagic, disk: &FurtherDisk) -> Self {
        // Packed as for a sandbox, so that what does not fit is told.
        let content = disk
            .read(magic)
            .and_then(|content| further_disk::pack(magic, &disk.source, &content).map(|_| content));
        Self {
            magic,
            source: disk.source.clone(),
            serial: disk.serial.clone(),
            bytes: content.as_ref().ok().map(|content| content.len()),
            fault: content.err().map(|error| error.to_string()),
        }
    }

    pub(super) fn row(&self) -> Row {
        let source = self.source.display();
        let what = match (&self.fault, self.bytes) {
            (Some(fault), _) => format!("none, so no sandbox starts: failed to {fault}"),
            (None, bytes) => format!("{source}, {} bytes", bytes.unwrap_or_default()),
        };
        ("disk", format!("{}: {what}", self.magic))
    }
}
