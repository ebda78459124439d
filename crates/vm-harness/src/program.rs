//! The programs of this workspace, as `hack/build` leaves them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A program of this workspace, built static by `hack/build`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The host's command line.
    KataConfigdev,
    /// The hypervisor wrapper.
    KataConfigdevQemu,
    /// The guest's first program.
    InitdataProcessor,
    /// The guest's puller.
    Imagepuller,
    /// What `initdata-processor` is measured against.
    AgentLoop,
    /// What gives a test guest its secrets.
    GuestResources,
}

impl Program {
    /// Its file name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KataConfigdev => "kata-configdev",
            Self::KataConfigdevQemu => "kata-configdev-qemu",
            Self::InitdataProcessor => "initdata-processor",
            Self::Imagepuller => "imagepuller",
            Self::AgentLoop => "agent-loop",
            Self::GuestResources => "guest-resources",
        }
    }

    /// Where it is: with the programs that were built as the one that runs was.
    ///
    /// # Errors
    ///
    /// Where it was not built.
    pub fn path(self) -> Result<PathBuf> {
        program(self.name())
    }
}

/// The program of a name that lies beside the one that runs, or above it where that is a test in
/// `deps`.
///
/// # Errors
///
/// Where it was not built.
pub fn program(name: &str) -> Result<PathBuf> {
    let running = std::env::current_exe()?;
    let folder = running.parent().context("this program lies nowhere")?;
    let folder = match folder.file_name() {
        Some(last) if last == "deps" => folder.parent().unwrap_or(folder),
        _ => folder,
    };
    let path = folder.join(name);
    ensure!(
        path.is_file(),
        "{} is missing: run cargo build --workspace --bins --examples first",
        path.display()
    );
    Ok(path)
}

/// The checkout this crate was built from.
pub(crate) fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
