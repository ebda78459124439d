//! A temporary folder.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A temporary folder, which goes with this value.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// An empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with empty directories in it.
    #[must_use]
    pub fn with(directories: &[&str]) -> Self {
        let folder = Self::new();
        for name in directories {
            std::fs::create_dir_all(folder.path(name)).unwrap();
        }
        folder
    }

    /// A folder with copies of the files in a directory, which nobody but their owner can read.
    #[must_use]
    pub fn copy(directory: impl AsRef<Path>) -> Self {
        let folder = Self::new();
        let copied = Command::new("/bin/sh")
            .args(["-c", "umask 077; cp -rL \"$0/.\" \"$1\""])
            .args([directory.as_ref(), &folder.path("")])
            .status();
        assert!(copied.unwrap().success());
        folder
    }

    /// Where the file `name` is or would be.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// [`Folder::path`] as text.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().into()
    }

    /// Writes a file of mode 0600, in directories that are made, and returns its path as text.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        self.set_mode(name, 0o600);
        self.text(name)
    }

    /// Writes a program of this mode. Another process does it: a child that a neighbour of this
    /// test has just forked has all our descriptors until its `exec`, and a file that is open for
    /// writing anywhere cannot be executed ("text file busy").
    pub fn program(&self, name: &str, mode: &str, text: &str) -> String {
        let written = Command::new("/bin/sh")
            .args(["-c", "printf %s \"$2\" >\"$0\" && chmod \"$1\" \"$0\""])
            .arg(self.path(name))
            .args([mode, text])
            .status();
        assert!(written.unwrap().success());
        self.text(name)
    }

    /// The content of a file.
    #[must_use]
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Gives a file or directory the mode.
    pub fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    /// The permission bits of a file or directory; those of `""` are the folder's.
    #[must_use]
    pub fn mode(&self, name: &str) -> u32 {
        mode(&self.path(name))
    }

    /// How many entries a directory of the folder has; `""` is the folder itself.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        std::fs::read_dir(self.path(name)).unwrap().count()
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}
