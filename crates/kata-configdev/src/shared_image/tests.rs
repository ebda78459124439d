use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;

fn run() -> (TempDir, SandboxId) {
    (tempfile::tempdir().unwrap(), SandboxId::parse("box-1").unwrap())
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

#[test]
fn only_the_owner_can_read_what_was_put() {
    let (run, sandbox) = run();
    let path = put(run.path(), &sandbox, b"first").unwrap();
    assert_eq!(path, run.path().join("kata-containers/shared/initdata/box-1/imagepuller.img"));
    assert_eq!(path, super::path(run.path(), &sandbox));
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&run.path().join("kata-containers")), 0o755);

    // A second attach replaces the file, and whoever has the first open keeps it whole.
    let old = std::fs::File::open(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    put(run.path(), &sandbox, b"second, longer").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"second, longer");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(std::io::read_to_string(old).unwrap(), "first");
    let names = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1, "no temporary file");
}

#[test]
fn a_directory_of_kata_keeps_its_mode_and_its_files() {
    let (run, sandbox) = run();
    let directory = super::directory(run.path(), &sandbox);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o750)).unwrap();
    std::fs::write(directory.join("initdata.image"), "Kata's").unwrap();
    put(run.path(), &sandbox, b"image").unwrap();
    assert_eq!(mode(&directory), 0o750);
    std::fs::write(directory.join(".kata-configdev.7.0"), "left behind").unwrap();
    assert!(remove(run.path(), &sandbox).unwrap());
    let names: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["initdata.image"]);
    assert!(!remove(run.path(), &sandbox).unwrap());
}

#[test]
fn removing_takes_only_the_sandbox_and_can_be_repeated() {
    let (run, sandbox) = run();
    let other = SandboxId::parse("box-11").unwrap();
    assert!(!remove(run.path(), &sandbox).unwrap(), "nothing there at all");
    put(run.path(), &sandbox, b"image").unwrap();
    let kept = put(run.path(), &other, b"other").unwrap();
    assert!(remove(run.path(), &sandbox).unwrap());
    assert!(!super::directory(run.path(), &sandbox).exists());
    assert_eq!(std::fs::read(kept).unwrap(), b"other");
    assert!(!remove(run.path(), &sandbox).unwrap());
}

/// Whoever may write below /run must not be able to have the credentials put, or a file removed,
/// elsewhere.
#[test]
fn links_and_directories_of_others_are_refused() {
    for level in [
        "kata-containers",
        "kata-containers/shared",
        "kata-containers/shared/initdata",
        "kata-containers/shared/initdata/box-1",
    ] {
        let (run, sandbox) = run();
        let elsewhere = tempfile::tempdir().unwrap();
        let link = run.path().join(level);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(elsewhere.path(), &link).unwrap();
        let error = put(run.path(), &sandbox, b"hunter2").unwrap_err().to_string();
        assert!(error.contains(level) && !error.contains("hunter2"), "{error}");
        let victim = elsewhere.path().join(FILE_NAME);
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        std::fs::write(&victim, "untouched").unwrap();
        remove(run.path(), &sandbox).unwrap_err();
        assert!(victim.exists());

        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir(&link).unwrap();
        std::fs::set_permissions(&link, PermissionsExt::from_mode(0o777)).unwrap();
        let error = put(run.path(), &sandbox, b"hunter2").unwrap_err().to_string();
        assert!(error.contains("mode 0777"), "{error}");
    }
}

#[test]
fn a_link_in_the_files_place_is_left_alone() {
    let (run, sandbox) = run();
    let path = put(run.path(), &sandbox, b"image").unwrap();
    let victim = run.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    std::fs::remove_file(&path).unwrap();
    symlink(&victim, &path).unwrap();
    let error = put(run.path(), &sandbox, b"image").unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    // Removing takes the link, not what it leads to.
    assert!(remove(run.path(), &sandbox).unwrap());
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
}

/// A reader sees one of the images, never a part of one and never none.
#[test]
fn an_image_appears_as_a_whole() {
    let (run, sandbox) = run();
    let images = [vec![b'a'; 300_000], vec![b'b'; 200_000]];
    let path = put(run.path(), &sandbox, &images[0]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                for image in &images {
                    put(run.path(), &sandbox, image).unwrap();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut wrong = 0;
        while !stop.load(Ordering::Relaxed) {
            let found = std::fs::read(&path).unwrap_or_default();
            wrong += usize::from(!images.contains(&found));
        }
        assert_eq!(wrong, 0);
    });
}

#[test]
fn only_images_are_listed() {
    let (run, sandbox) = run();
    assert!(all(run.path()).unwrap().is_empty());
    put(run.path(), &sandbox, b"image").unwrap();
    let parent = super::parent(run.path());
    std::fs::create_dir(parent.join("without-image")).unwrap();
    std::fs::create_dir(parent.join(".hidden")).unwrap();
    std::fs::write(parent.join(".hidden").join(FILE_NAME), "").unwrap();
    std::fs::write(parent.join("file"), "").unwrap();
    symlink("box-1", parent.join("link")).unwrap();
    std::fs::create_dir(parent.join("part")).unwrap();
    std::fs::write(parent.join("part/.kata-configdev.7.0"), "left behind").unwrap();
    let listed = all(run.path()).unwrap();
    let ids: Vec<_> = listed.iter().map(|kept| kept.sandbox.as_str()).collect();
    assert_eq!(ids, ["box-1", "file", "link", "part"]);
    // What is no directory is told, not passed over.
    let seen: Vec<_> =
        listed.iter().map(|kept| kept.age.as_ref().is_ok_and(Option::is_some)).collect();
    assert_eq!(seen, [true, false, false, true]);
    assert!(listed[1].age.is_err() && listed[2].age.is_err());
}

#[test]
fn the_newest_file_says_the_age() {
    let (run, sandbox) = run();
    let image = put(run.path(), &sandbox, b"image").unwrap();
    let part = image.with_file_name(".kata-configdev.7.0");
    std::fs::write(&part, "left behind").unwrap();
    let hours = |hours: u64| SystemTime::now() - Duration::from_secs(hours * 3600);
    let set = |path: &Path, time| std::fs::File::open(path).unwrap().set_modified(time).unwrap();
    for (one, other) in [(3, 9), (9, 3)] {
        set(&image, hours(one));
        set(&part, hours(other));
        let age = all(run.path()).unwrap().remove(0).age.unwrap().unwrap();
        assert_eq!(age.as_secs() / 3600, 3);
    }
}

#[test]
fn what_cannot_be_removed_does_not_keep_the_rest() {
    let (run, sandbox) = run();
    let image = put(run.path(), &sandbox, b"image").unwrap();
    std::fs::create_dir(image.with_file_name(".kata-configdev.7.0")).unwrap();
    let part = image.with_file_name(".kata-configdev.7.1");
    std::fs::write(&part, "left behind").unwrap();
    remove(run.path(), &sandbox).unwrap_err();
    assert!(!image.exists() && !part.exists());
}
