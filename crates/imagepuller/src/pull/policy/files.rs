//! Files of the measured document's directory, and of a person's.

use std::path::{Component, Path};

use foreign_text::bounded::{ReadError, read_file, read_path};
use foreign_text::shown;
use linux_sys::rooted::Root;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// How much of a path a message shows, in characters.
const MAX_PATH_CHARS: usize = 200;

/// Reads a file of the directory that measured initdata filled, by its plain name or by its path
/// there. No link is followed and nothing outside is read: the rest of the guest's files is not the
/// owner's word. Blocks.
///
/// # Errors
///
/// Words that fit behind the file's name.
pub fn measured(
    directory: Option<&Path>,
    path: &str,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let Some(directory) = directory else {
        return Err("would be a file beside the measured document, and there is none".to_owned());
    };
    let path = Path::new(path);
    let name = path.strip_prefix(directory).unwrap_or(path);
    let mut parts = name.components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return Err(format!(
            "is neither a reference (kbs:///repository/type/tag) nor a file of {}, which has what \
            [data] of the initdata brings; name one of its files, without a path",
            directory.display()
        ));
    };
    let opened = Root::open(directory)
        .and_then(|root| root.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK));
    let read = opened.map_err(ReadError::from);
    read.and_then(|file| read_file(file, limit)).map_err(|error| match error {
        ReadError::NotThere(_) => {
            format!("is not in {}: put it into [data] of the initdata", directory.display())
        }
        error => format!("cannot be read: {error}"),
    })
}

/// Reads a file that a person names: by an absolute path, or beside another file. Blocks.
///
/// # Errors
///
/// Words that fit behind the file's name.
pub fn beside(file: &Path, path: &str, limit: usize) -> Result<Zeroizing<Vec<u8>>, String> {
    let directory = file.parent().unwrap_or(Path::new(""));
    let path = directory.join(path);
    read_path(&path, limit).map_err(|error| {
        let path = path.display().to_string();
        format!("cannot be read ({}): {error}", shown(&path).up_to(MAX_PATH_CHARS))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_plain_files_of_the_directory_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("measured-cfg");
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::write(directory.join("team.pub"), "key").unwrap();
        fs::write(directory.join("sub/team.pub"), "key").unwrap();
        fs::write(folder.path().join("host.pub"), "host").unwrap();
        symlink("team.pub", directory.join("link")).unwrap();
        symlink("../host.pub", directory.join("out")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(directory.join("fifo")).status();
        assert!(made.unwrap().success());
        let read = |path: &str| measured(Some(&directory), path, 3);
        let there = directory.join("team.pub").display().to_string();
        for path in ["team.pub", &there] {
            assert_eq!(*read(path).unwrap(), b"key");
        }
        let outside = folder.path().join("host.pub").display().to_string();
        for (path, words) in [
            ("absent", "is not in "),
            ("", "neither a reference"),
            (".", "neither a reference"),
            ("..", "neither a reference"),
            ("../host.pub", "neither a reference"),
            ("sub/team.pub", "neither a reference"),
            ("/etc/passwd", "neither a reference"),
            (&outside, "neither a reference"),
            ("link", "cannot be read"),
            ("out", "cannot be read"),
            ("sub", "cannot be read"),
            ("fifo", "cannot be read"),
        ] {
            let why = read(path).unwrap_err();
            assert!(why.starts_with(words) || why.contains(words), "{path}: {why}");
        }
        assert!(measured(Some(&directory), "team.pub", 2).is_err());
        assert!(measured(None, "team.pub", 3).is_err());
    }

    #[test]
    fn a_person_names_files_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.json");
        fs::create_dir(folder.path().join("keys")).unwrap();
        let key = folder.path().join("keys/team.pub");
        fs::write(&key, "key").unwrap();
        for path in ["keys/team.pub", key.to_str().unwrap()] {
            assert_eq!(*beside(&policy, path, 3).unwrap(), b"key");
        }
        assert!(beside(&policy, "absent", 3).is_err());
        assert!(beside(Path::new("policy.json"), "absent", 3).is_err());
    }
}
