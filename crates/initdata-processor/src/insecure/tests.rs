use std::os::unix::fs::symlink;

use std::fs;
use std::path::Path;

use super::*;
use crate::settings::IMAGEPULLER;

const FILE: &str = "imagepuller.toml";
const ERROR_FILE: &str = "imagepuller.error";

fn target() -> Target {
    IMAGEPULLER
}

fn make(run: &Path) -> Result<Insecure, Error> {
    Insecure::make(run, None)
}

fn state(run: &Path) -> Vec<(String, String, u32)> {
    let mut files: Vec<_> = fs::read_dir(run.join(DIRECTORY))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read_to_string(&path).unwrap(),
                path.metadata().unwrap().permissions().mode() & 0o7777,
            )
        })
        .collect();
    files.sort();
    files
}

fn file(name: &str, content: &str) -> Vec<(String, String, u32)> {
    vec![(name.into(), content.into(), 0o600)]
}

#[test]
fn each_state_replaces_the_other() {
    let run = tempfile::tempdir().unwrap();
    make(run.path()).unwrap().clear(&target()).unwrap();
    assert_eq!(state(run.path()), []);
    make(run.path()).unwrap().store(&target(), b"one").unwrap();
    assert_eq!(state(run.path()), file(FILE, "one"));
    make(run.path()).unwrap().store(&target(), b"two").unwrap();
    assert_eq!(state(run.path()), file(FILE, "two"));
    make(run.path()).unwrap().refuse(&target(), "the\nreason").unwrap();
    assert_eq!(state(run.path()), file(ERROR_FILE, "the reason\n"));
    make(run.path()).unwrap().store(&target(), b"three").unwrap();
    assert_eq!(state(run.path()), file(FILE, "three"));
    make(run.path()).unwrap().refuse(&target(), &"x".repeat(5000)).unwrap();
    assert_eq!(state(run.path())[0].1.len(), MAX_ERROR_BYTES + 1);
    make(run.path()).unwrap().clear(&target()).unwrap();
    assert_eq!(state(run.path()), []);
}

/// A killed writer once left up to 4 MiB with passwords for ever, by a name with its process ID.
#[test]
fn what_a_killed_writer_left_is_cleaned_by_whoever_comes_next() {
    let run = tempfile::tempdir().unwrap();
    let insecure = make(run.path()).unwrap();
    let target = target();
    let next: [&dyn Fn() -> Result<(), Error>; 3] =
        [&|| insecure.store(&target, b"other"), &|| insecure.refuse(&target, "reason"), &|| {
            insecure.clear(&target)
        }];
    let path = run.path().join(DIRECTORY);
    for next in next {
        for name in [FILE, ERROR_FILE] {
            fs::write(path.join(format!(".{name}")), "half a passw").unwrap();
        }
        next().unwrap();
        let state = state(run.path());
        assert!(!state.iter().any(|file| file.0.starts_with('.')), "{state:?}");
    }
}

#[test]
fn the_directory_is_for_root_only_even_if_it_was_not() {
    let run = tempfile::tempdir().unwrap();
    let directory = run.path().join(DIRECTORY);
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    make(run.path()).unwrap().store(&target(), b"secret").unwrap();
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn links_in_the_way_are_not_followed() {
    let run = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), run.path().join(DIRECTORY)).unwrap();
    assert!(make(run.path()).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);

    fs::remove_file(run.path().join(DIRECTORY)).unwrap();
    make(run.path()).unwrap().clear(&target()).unwrap();
    let victim = elsewhere.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    symlink(&victim, run.path().join(DIRECTORY).join(FILE)).unwrap();
    make(run.path()).unwrap().store(&target(), b"secret").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    assert_eq!(state(run.path()), file(FILE, "secret"));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let run = tempfile::tempdir().unwrap();
    fs::write(run.path().join(DIRECTORY), "a file in the way").unwrap();
    assert_eq!(*make(run.path()).unwrap_err().class(), Class::Failed);
}
