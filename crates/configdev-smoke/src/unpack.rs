//! An initrd as a directory, as far as `check-image` looks at it: files, folders and links.
//!
//! Names of the archive never lead out of the directory: links in them are followed inside of it,
//! as the kernel follows them inside of the guest's root.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use cpio::newc;

/// The most that is unpacked, so that a bomb ends early.
const MAX_BYTES: u64 = 4 << 30;

/// The most links that one name leads through, as in the kernel.
const MAX_LINKS: usize = 40;

const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Unpacks all archives of `initrd` below `root`.
///
/// # Errors
///
/// Where it is no archive, is compressed by something other than gzip, xz or zstd, or is too large.
pub fn unpack(initrd: &[u8], root: &Path) -> Result<()> {
    let mut left = MAX_BYTES;
    let mut rest = initrd;
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        rest = &rest[start..];
        rest = match rest {
            [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => archive(rest, root, &mut left)?,
            [0x1f, 0x8b, ..] => {
                let mut reader = flate2::bufread::GzDecoder::new(rest);
                inner(read_all(&mut reader, left)?, root, &mut left)?;
                reader.into_inner()
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                let reader = zstd::stream::read::Decoder::with_buffer(rest)?;
                let mut reader = reader.single_frame();
                inner(read_all(&mut reader, left)?, root, &mut left)?;
                reader.finish()
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
                inner(through_xz(rest, left)?, root, &mut left)?;
                &[]
            }
            _ => bail!("it is neither a cpio archive nor gzip, xz or zstd"),
        };
    }
    Ok(())
}

/// What was compressed: archives, and no further compression.
fn inner(bytes: Vec<u8>, root: &Path, left: &mut u64) -> Result<()> {
    let mut rest = &bytes[..];
    while let Some(start) = rest.iter().position(|byte| *byte != 0) {
        rest = &rest[start..];
        ensure!(rest.starts_with(b"07070"), "what is compressed is no cpio archive");
        rest = archive(rest, root, left)?;
    }
    Ok(())
}

fn read_all(reader: &mut impl std::io::Read, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, "it is larger than 4 GiB");
    Ok(bytes)
}

fn through_xz(bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut xz = Command::new("xz")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("failed to start xz")?;
    let (input, output) = (xz.stdin.take(), xz.stdout.take());
    let plain = std::thread::scope(|scope| {
        scope.spawn(move || input.map(|mut input| input.write_all(bytes)));
        output.map(|mut output| read_all(&mut output, limit))
    });
    // It may still want to write more than was read.
    let _ = xz.kill();
    let _ = xz.wait();
    plain.context("xz has no output")?
}

/// Unpacks one archive and gives what stands behind it.
fn archive<'a>(mut rest: &'a [u8], root: &Path, left: &mut u64) -> Result<&'a [u8]> {
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

fn put(root: &Path, name: &str, mode: u32, content: &[u8]) -> Result<()> {
    let Some(path) = place(root, Path::new(name))? else {
        return Ok(());
    };
    let stat = path.symlink_metadata().ok();
    let (is_there, is_folder) = (stat.is_some(), stat.is_some_and(|stat| stat.is_dir()));
    match mode & KIND {
        DIRECTORY if is_folder => {}
        DIRECTORY => {
            if is_there {
                fs::remove_file(&path)?;
            }
            fs::create_dir(&path)?;
        }
        FILE | LINK => {
            if is_there && !is_folder {
                fs::remove_file(&path)?;
            }
            if mode & KIND == LINK {
                symlink(std::ffi::OsStr::from_bytes(content), &path)?;
            } else {
                fs::write(&path, content)?;
                // Readable whatever it was: it is to be looked at.
                fs::set_permissions(&path, Permissions::from_mode(mode & 0o777 | 0o600))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Where a name is below `root`, with the links of its folders followed; nothing for the root
/// itself and for a name whose folder is not there.
fn place(root: &Path, name: &Path) -> Result<Option<PathBuf>> {
    let mut links = 0;
    let mut inside = PathBuf::new();
    let mut todo: Vec<PathBuf> = parts(name)?;
    while let Some(part) = todo.pop() {
        if part.as_os_str() == ".." {
            inside.pop();
            continue;
        }
        let path = root.join(&inside).join(&part);
        // The name's own last part: a link there is replaced, not followed.
        if todo.is_empty() {
            return Ok(Some(path));
        }
        match path.symlink_metadata() {
            Ok(stat) if stat.is_symlink() => {
                links += 1;
                ensure!(links <= MAX_LINKS, "too many links");
                let target = fs::read_link(&path)?;
                if target.is_absolute() {
                    inside = PathBuf::new();
                }
                todo.extend(parts(&target)?);
            }
            Ok(stat) if stat.is_dir() => inside.push(part),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The parts of a path, last first.
fn parts(path: &Path) -> Result<Vec<PathBuf>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part.into()),
            Component::ParentDir => parts.push("..".into()),
            Component::RootDir | Component::CurDir => {}
            Component::Prefix(_) => bail!("a strange name"),
        }
    }
    parts.reverse();
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

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
