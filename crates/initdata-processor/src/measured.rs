//! `/run/measured-cfg`: verified files, or the deny-all policy.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::Error;
use crate::initdata::FileName;

/// The directory's name below `/run`.
pub const DIRECTORY: &str = "measured-cfg";

/// Replaces the directory by one that holds exactly `files`: 0755, each file 0644.
///
/// The new directory is complete before it gets its name, in one rename, so a reader sees either all files or none of
/// them. What had the name before, even a symbolic link, is removed and not followed. Not synced: `/run` is memory.
///
/// # Errors
///
/// [`Error::Write`]; then the old state is untouched.
pub fn replace<'a>(
    run: &Path,
    files: impl IntoIterator<Item = (&'a FileName, &'a [u8])>,
) -> Result<(), Error> {
    let target = run.join(DIRECTORY);
    let staging = Staging::create(run)?;
    for (name, content) in files {
        staging.write(name, content)?;
    }
    staging.finish(&target)
}

/// A directory beside the target that nobody reads yet; removed when dropped.
struct Staging {
    path: PathBuf,
}

impl Staging {
    fn create(run: &Path) -> Result<Self, Error> {
        let mut name = OsString::from(".measured-cfg.");
        name.push(std::process::id().to_string());
        let path = run.join(name);
        // A leftover of a run that was killed and whose process number came again.
        remove(&path);
        at(&path, DirBuilder::new().mode(0o700).create(&path))?;
        Ok(Self { path })
    }

    fn write(&self, name: &FileName, content: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name.as_str());
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(content)?;
                // Set afterwards, so that the umask has no say.
                file.set_permissions(Permissions::from_mode(0o644))
            });
        at(&path, written)
    }

    fn finish(self, target: &Path) -> Result<(), Error> {
        at(
            target,
            fs::set_permissions(&self.path, Permissions::from_mode(0o755)),
        )?;
        // Nothing there yet, or swap with what is there; dropping the staging directory then removes the old one.
        let moved = match renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => renameat_with(CWD, &self.path, CWD, target, RenameFlags::EXCHANGE),
            other => other,
        };
        at(target, moved.map_err(io::Error::from))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes whatever has this name, without following a link. What stays is unused and holds nothing secret.
fn remove(path: &Path) {
    let _ = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(run: &Path, files: &[(&str, &str)]) -> Result<(), Error> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, content)| (FileName::new(name).unwrap(), content.as_bytes()))
            .collect();
        replace(run, files.iter().map(|(name, content)| (name, *content)))
    }

    fn list(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_and_modes() {
        let run = tempfile::tempdir().unwrap();
        put(run.path(), &[("policy.rego", "text"), ("aa.toml", "")]).unwrap();
        let target = run.path().join(DIRECTORY);
        assert_eq!(list(&target), ["aa.toml", "policy.rego"]);
        assert_eq!(
            fs::read_to_string(target.join("policy.rego")).unwrap(),
            "text"
        );
        assert_eq!(mode(&target), 0o755);
        assert_eq!(mode(&target.join("policy.rego")), 0o644);
        assert_eq!(list(run.path()), [DIRECTORY], "no staging directory left");
    }

    #[test]
    fn what_was_there_is_replaced_whole() {
        let run = tempfile::tempdir().unwrap();
        let target = run.path().join(DIRECTORY);
        put(run.path(), &[("old", "1"), ("both", "1")]).unwrap();
        put(run.path(), &[("new", "2"), ("both", "2")]).unwrap();
        assert_eq!(list(&target), ["both", "new"]);
        assert_eq!(fs::read_to_string(target.join("both")).unwrap(), "2");
        put(run.path(), &[]).unwrap();
        assert_eq!(list(&target), [""; 0]);
        assert_eq!(list(run.path()), [DIRECTORY]);
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_not_followed() {
        let run = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("kept"), "").unwrap();
        symlink(elsewhere.path(), run.path().join(DIRECTORY)).unwrap();
        put(run.path(), &[("new", "")]).unwrap();
        assert_eq!(list(elsewhere.path()), ["kept"]);
        assert_eq!(list(&run.path().join(DIRECTORY)), ["new"]);
        assert_eq!(list(run.path()), [DIRECTORY]);
    }

    #[test]
    fn a_reader_sees_all_or_nothing() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let run = tempfile::tempdir().unwrap();
        let target = run.path().join(DIRECTORY);
        put(run.path(), &[("a", "0"), ("b", "0")]).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while !stop.load(Ordering::Relaxed) {
                    // One directory, held open: both files of it are of one generation or gone.
                    let directory = fs::File::open(&target).expect("the name always exists");
                    let read = |name: &str| {
                        rustix::fs::openat(
                            &directory,
                            name,
                            rustix::fs::OFlags::RDONLY,
                            rustix::fs::Mode::empty(),
                        )
                        .map(fs::File::from)
                        .and_then(|file| std::io::read_to_string(file).map_err(|_| Errno::IO))
                    };
                    if let (Ok(a), Ok(b)) = (read("a"), read("b")) {
                        assert_eq!(a, b);
                        assert!(!a.is_empty());
                        seen += 1;
                    }
                }
                seen
            });
            for generation in 1..200 {
                let content = generation.to_string();
                put(run.path(), &[("a", &content), ("b", &content)]).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
    }

    #[test]
    fn a_failure_leaves_the_old_state() {
        let run = tempfile::tempdir().unwrap();
        put(run.path(), &[("old", "1")]).unwrap();
        // The same name twice cannot come from a map; here it stands for any write that fails half-way.
        let error = put(run.path(), &[("new", "2"), ("new", "3")]).unwrap_err();
        assert!(matches!(error, Error::Write { .. }));
        assert_eq!(list(&run.path().join(DIRECTORY)), ["old"]);
        assert_eq!(list(run.path()), [DIRECTORY]);
    }
}
