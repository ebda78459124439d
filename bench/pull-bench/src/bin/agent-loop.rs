//! Guest, for `hack/bench scan` only: the search for initdata that Kata's agent does, written anew
//! from a description of it.
//!
//! `/dev` in the directory's order; names that begin with `vd` or `sd`, partitions too; a buffered
//! read of the first bytes; the first magic wins. The length on the disk sizes an allocation, and
//! the payload is inflated without a limit: do not use this for anything else. The agent does the
//! same on tokio, with a hop to another thread for each call, which is left out here.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::time::Instant;

use flate2::read::GzDecoder;

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut looked_at = 0;
    let document = search(&mut looked_at)?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    // As initdata-processor's last line, so that one reader does for both.
    eprintln!(
        "agent-loop: finished after {milliseconds:.2} ms; looked at {looked_at}, document {}",
        document.map_or("none".to_owned(), |text| format!("{} bytes", text.len())),
    );
    Ok(())
}

fn search(looked_at: &mut usize) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    for entry in fs::read_dir("/dev")? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with("vd") || name.starts_with("sd")) {
            continue;
        }
        if !entry.metadata()?.file_type().is_block_device() {
            continue;
        }
        *looked_at += 1;
        let mut disk = BufReader::new(File::open(entry.path())?);
        let mut magic = [0; 8];
        if disk.read_exact(&mut magic).is_err() || magic != *b"initdata" {
            continue;
        }
        let mut length = [0; 8];
        disk.read_exact(&mut length)?;
        let mut stream = vec![0; usize::try_from(u64::from_le_bytes(length))?];
        disk.read_exact(&mut stream)?;
        let mut document = Vec::new();
        GzDecoder::new(stream.as_slice()).read_to_end(&mut document)?;
        return Ok(Some(document));
    }
    Ok(None)
}
