//! Fresh file systems, one for each run: a used ext4 is many times slower at making files where
//! some were just removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use rustix::fs::statvfs;

use crate::measure::checked;
use crate::options::FileSystem;

/// Room for the largest image in every form that a tool keeps it in.
const SIZE: &str = "8g";

/// A mounted file system; unmounted and forgotten when dropped.
#[derive(Debug)]
pub struct Ground {
    path: PathBuf,
    /// The memory that an ext4's image file lies in.
    backing: Option<PathBuf>,
}

impl Ground {
    /// Makes and mounts an empty one below `work`.
    pub fn fresh(work: &Path, kind: FileSystem) -> Result<Self> {
        let path = work.join("ground");
        fs::create_dir_all(&path)?;
        let mut ground = Self { path: path.clone(), backing: None };
        match kind {
            FileSystem::Tmpfs => mount_tmpfs(&path)?,
            FileSystem::Ext4 => {
                let backing = work.join("backing");
                fs::create_dir_all(&backing)?;
                mount_tmpfs(&backing)?;
                ground.backing = Some(backing.clone());
                let image = backing.join("image");
                fs::File::create(&image)?.set_len(8 << 30)?;
                // The kernel's thread that would prepare inode tables would work during the run.
                checked(
                    Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&image),
                )?;
                checked(
                    Command::new("mount").args(["-o", "loop,noinit_itable"]).arg(&image).arg(&path),
                )?;
            }
        }
        Ok(ground)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many files it holds, to see that something was really unpacked.
    pub fn files(&self) -> Result<u64> {
        let figures = statvfs(&self.path)?;
        Ok(figures.f_files - figures.f_ffree)
    }
}

fn mount_tmpfs(path: &Path) -> Result<()> {
    checked(
        Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={SIZE},nr_inodes=4m,mode=0755"), "tmpfs"])
            .arg(path),
    )
}

impl Drop for Ground {
    fn drop(&mut self) {
        for path in [Some(&self.path), self.backing.as_ref()].into_iter().flatten() {
            // What a tool mounted inside goes first; what a killed one still holds goes when it
            // ends.
            let gone = checked(Command::new("umount").arg("--recursive").arg(path)).or_else(|_| {
                checked(Command::new("umount").args(["--recursive", "--lazy"]).arg(path))
            });
            if let Err(error) = gone {
                eprintln!("could not unmount {}: {error:#}", path.display());
            }
        }
    }
}
