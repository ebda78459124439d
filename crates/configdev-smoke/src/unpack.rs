//! An initrd as a directory, as far as [`no_boot`](crate::no_boot) looks at it: files, folders,
//! links.
//!
//! Names of the archive never lead out of the directory: links in them are followed inside of it,
//! as the kernel follows them inside of the guest's root.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use cpio::newc;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, statat, symlinkat, unlinkat};

use crate::image::MAX_BYTES;
use crate::no_boot::tree::Tree;

/// Unpacks all archives of `initrd` below `root`.
///
/// # Errors
///
/// Where it is no archive, is compressed by something other than gzip, xz or zstd, or is too large.
pub fn unpack(initrd: &[u8], root: &Path) -> Result<()> {
    all(initrd, &Tree::open(root)?, &mut MAX_BYTES.clone(), true)
}

/// Archives one behind the other, where `may_inflate` compressed ones too: no archive is compressed
/// twice.
fn all(mut rest: &[u8], root: &Tree, left: &mut u64, may_inflate: bool) -> Result<()> {
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        rest = &rest[start..];
        rest = match rest {
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => archive(rest, root, left)?,
            _ if !may_inflate => bail!("what is compressed is no cpio archive"),
            [0x1f, 0x8b, ..] => {
                let mut reader = flate2::bufread::GzDecoder::new(rest);
                all(&read_all(&mut reader, *left)?, root, left, false)?;
                reader.into_inner()
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let reader = zstd::stream::read::Decoder::with_buffer(rest)?;
                let mut reader = reader.single_frame();
                all(&read_all(&mut reader, *left)?, root, left, false)?;
                reader.finish()
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                all(&through_xz(rest, *left)?, root, left, false)?;
                &[]
            }
            _ => bail!("it is neither a cpio archive nor gzip, xz or zstd"),
        };
    }
    Ok(())
}

fn read_all(reader: &mut impl Read, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, "it is larger than 4 GiB");
    Ok(bytes)
}

fn through_xz(bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut input = tempfile::tempfile()?;
    input.write_all(bytes)?;
    input.rewind()?;
    let mut xz = Command::new("xz");
    xz.arg("-dc").stdin(input).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut xz = xz.spawn().context("failed to start xz")?;
    let plain = xz.stdout.take().map(|mut output| read_all(&mut output, limit));
    // It may still want to write more than was read.
    let _ = xz.kill();
    let _ = xz.wait();
    plain.context("xz has no output")?
}

/// Unpacks one archive and gives what stands behind it.
fn archive<'a>(mut rest: &'a [u8], root: &Tree, left: &mut u64) -> Result<&'a [u8]> {
    loop {
        let reader = newc::Reader::new(rest)?;
        let entry = reader.entry();
        if entry.is_trailer() {
            return Ok(reader.finish()?);
        }
        let (name, mode) = (entry.name().to_owned(), entry.mode());
        let size = u64::from(entry.file_size());
        *left = left.checked_sub(size).context("it is larger than 4 GiB")?;
        let mut content = Vec::new();
        rest = reader.to_writer(&mut content)?;
        put(root, &name, mode, &content).with_context(|| format!("{name:?}"))?;
    }
}

/// Nothing for the root itself, for a name whose folder is not there, and for devices.
fn put(root: &Tree, name: &str, mode: u32, content: &[u8]) -> Result<()> {
    let name = Path::new(name);
    let (Some(folder), Some(name)) = (name.parent().and_then(Path::to_str), name.file_name())
    else {
        return Ok(());
    };
    let Some(folder) = root.at(folder, OFlags::PATH | OFlags::DIRECTORY)? else {
        return Ok(());
    };
    let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let there = there.map(|stat| FileType::from_raw_mode(stat.st_mode));
    // The name's own last part: a link there is replaced, not followed.
    if there.is_some_and(|there| there != FileType::Directory) {
        unlinkat(&folder, name, AtFlags::empty())?;
    }
    match FileType::from_raw_mode(mode) {
        FileType::Directory if there == Some(FileType::Directory) => {}
        FileType::Directory => mkdirat(&folder, name, Mode::RWXU)?,
        FileType::Symlink => symlinkat(OsStr::from_bytes(content), &folder, name)?,
        FileType::RegularFile => {
            let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            // Readable whatever it was: it is to be looked at.
            let mode = Mode::from_raw_mode(mode & 0o777 | 0o600);
            File::from(openat(&folder, name, new, mode)?).write_all(content)?;
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::image::{FILE, LINK};

    fn newc_of(entries: &[(&str, u32, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, mode, content) in entries {
            let builder = newc::Builder::new(name).mode(*mode).nlink(1);
            let mut entry = builder.write(&mut bytes, content.len() as u32);
            entry.write_all(content.as_bytes()).unwrap();
            entry.finish().unwrap();
        }
        newc::trailer(bytes).unwrap()
    }

    #[test]
    fn archives_of_all_kinds_one_behind_the_other() {
        let plain = newc_of(&[("early", FILE | 0o644, "1")]);
        let second = newc_of(&[("second", FILE | 0o644, "2")]);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&second).unwrap();
        let third = zstd::encode_all(&newc_of(&[("third", FILE, "3")])[..], 1).unwrap();
        let all = [&plain[..], &[0; 4], &gzip.finish().unwrap(), &third].concat();
        let folder = tempfile::tempdir().unwrap();
        unpack(&all, folder.path()).unwrap();
        for (name, content) in [("early", "1"), ("second", "2"), ("third", "3")] {
            let path = folder.path().join(name);
            assert_eq!(fs::read_to_string(path).unwrap(), content);
        }
        assert!(unpack(b"#!/bin/sh", folder.path()).is_err());
        assert!(unpack(&plain[..80], folder.path()).is_err());
    }

    #[test]
    fn no_name_leads_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/root");
        fs::create_dir_all(&root).unwrap();
        let archive = newc_of(&[
            ("up", LINK | 0o777, "../.."),
            ("up/out", FILE | 0o644, "x"),
            ("../beside", FILE | 0o644, "x"),
            ("away", LINK | 0o777, "/"),
            ("away/top", FILE | 0o644, "x"),
            ("round", LINK | 0o777, "round"),
        ]);
        unpack(&archive, &root).unwrap();
        let mut names: Vec<_> = fs::read_dir(&root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["away", "beside", "out", "round", "top", "up"]);
        assert!(!folder.path().join("out").exists() && !folder.path().join("a/beside").exists());
        let loops = newc_of(&[("round/x", FILE | 0o644, "x")]);
        assert!(unpack(&loops, &root).is_err());
    }
}
