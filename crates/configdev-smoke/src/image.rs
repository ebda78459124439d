//! The caller's initrd with the stand-in laid over it: a second archive, which the kernel unpacks
//! over the first.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context, Result};
use cpio::newc;

use crate::seen::{FOLDER, Job};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

/// Where archives begin behind one another.
const ALIGNMENT: usize = 512;

/// Puts the stand-in at `agent`, and its job, behind `initrd`.
///
/// # Errors
///
/// Where the archive cannot be made.
pub fn with_agent(mut initrd: Vec<u8>, agent: &Path, program: &[u8], job: &Job) -> Result<Vec<u8>> {
    initrd.resize(initrd.len().next_multiple_of(ALIGNMENT), 0);
    let (folder, job) = (Path::new(FOLDER), serde_json::to_vec(job)?);
    for (name, mode, content) in [
        // No folder that the image has: that would replace a link, such as /bin, by a folder.
        (folder, DIRECTORY, &[][..]),
        (&folder.join("job.json"), FILE, &job),
        (agent.strip_prefix("/").unwrap_or(agent), FILE, program),
    ] {
        let name = name.to_str().with_context(|| format!("{name:?} is not UTF-8"))?;
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        // Without hard links nobody asks for the number of an inode.
        let mut entry = newc::Builder::new(name).mode(mode).nlink(1).write(initrd, size);
        entry.write_all(content)?;
        initrd = entry.finish()?;
    }
    Ok(newc::trailer(initrd)?)
}
