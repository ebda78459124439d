mod by_namespace;

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use tempfile::TempDir;

use super::annotation::place;
use super::*;
use crate::namespace_path::Allowed;

fn write(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

/// An allowed directory beside one that is not, each with a document.
fn node() -> (TempDir, Settings) {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        document: Some(dir.path().join("node.toml")),
        annotation_allow: vec![dir.path().join("allowed")],
        ..Settings::default()
    };
    for folder in ["allowed", "allowed/team", "other"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    write(&dir.path().join("node.toml"), "node");
    write(&dir.path().join("allowed/pod.toml"), "pod");
    write(&dir.path().join("allowed/team/pod.toml"), "team");
    write(&dir.path().join("other/secret.toml"), "hunter2");
    (dir, settings)
}

fn choose(settings: &Settings, pod: &Pod) -> Result<Option<DocumentFile>, ChoiceError> {
    super::choose(&NodeRoot::open(None).unwrap(), settings, pod)
}

fn chosen(settings: &Settings, annotation: Option<&str>) -> Result<Option<String>, String> {
    let pod = annotation.map(Pod::with_document).unwrap_or_default();
    text_of(choose(settings, &pod))
}

fn text_of(choice: Result<Option<DocumentFile>, ChoiceError>) -> Result<Option<String>, String> {
    choice
        .map(|choice| choice.map(|choice| String::from_utf8(choice.text.to_vec()).unwrap()))
        .map_err(|error| error.to_string())
}

#[test]
fn annotation_beats_node_default_and_empty_means_none() {
    let (dir, mut settings) = node();
    let below = |path: &str| format!("{}/{path}", dir.path().display());
    assert_eq!(chosen(&settings, None).unwrap().unwrap(), "node");
    assert_eq!(chosen(&settings, Some("")).unwrap(), None);
    for (path, text) in [("allowed/pod.toml", "pod"), ("allowed//./team/pod.toml", "team")] {
        assert_eq!(chosen(&settings, Some(&below(path))).unwrap().unwrap(), text);
    }
    settings.document = None;
    assert_eq!(chosen(&settings, None).unwrap(), None);
    settings.document = Some(below("n*e.toml").into());
    assert_eq!(chosen(&settings, None).unwrap().unwrap(), "node");
    settings.document = Some(below("absent.toml").into());
    assert!(chosen(&settings, None).unwrap_err().contains("absent.toml"));

    settings.missing_document = Some(registry_config::NodeError::new("late"));
    for path in ["absent.toml", "absent/node.toml", "abs*.toml"] {
        settings.document = Some(below(path).into());
        let said = chosen(&settings, None).unwrap().unwrap();
        assert_eq!(said, "node-error = \"late\"\n");
    }
    // A pod's own choice stays its own, and what is there must be right.
    let absent = below("allowed/absent.toml");
    assert!(chosen(&settings, Some(&absent)).is_err());
    settings.document = Some(below("*/*.toml").into());
    assert!(chosen(&settings, None).unwrap_err().contains("more than one"));
    settings.document = Some(below("other").into());
    assert!(chosen(&settings, None).unwrap_err().contains("not a regular file"));
}

/// Both were told to be a regular file of root.
#[test]
fn an_absent_document_and_a_long_one_have_their_own_remedies() {
    let (dir, settings) = node();
    write(&dir.path().join("allowed/long.toml"), vec![b'#'; MAX_DOCUMENT_BYTES + 1]);
    for (name, remedy) in [("absent", "put it there, or correct the"), ("long", "shorten it")] {
        let path = dir.path().join(format!("allowed/{name}.toml"));
        let error = choose(&settings, &Pod::with_document(path.to_str().unwrap())).unwrap_err();
        assert!(error.remedy().starts_with(remedy), "{name}: {}", error.remedy());
    }
}

#[test]
fn paths_are_placed_below_the_longest_allowed_directory() {
    let allowed = ["/etc/a", "/etc/a/team/", "/srv"].map(|path| Allowed::Shared(path.into()));
    let placed = |value| place(&allowed, value, None).map_err(|fault| fault.to_string());
    let ok = |directory, rest| Ok((Path::new(directory), PathBuf::from(rest)));
    assert_eq!(placed("/etc/a/x.toml"), ok("/etc/a", "x.toml"));
    assert_eq!(placed("/etc/a/team/x.toml"), ok("/etc/a/team", "x.toml"));
    assert_eq!(placed("/etc/./a//x.toml"), ok("/etc/a", "x.toml"));
    let refused = [
        ("x.toml", "absolute"),
        ("[registries]\npassword = \"hunter2\"", "absolute"),
        ("/etc/a/x\n.toml", "control"),
        ("/etc/a/x\0.toml", "control"),
        ("/etc/a/../../secret", ".."),
        ("/etc/a/team/../x.toml", ".."),
        ("/etc/a", "not below"),
        ("/etc/a/", "not below"),
        ("/etc/ab/x.toml", "not below"),
        ("/etc", "not below"),
        ("/", "not below"),
    ];
    for (value, rule) in refused {
        let message = placed(value).unwrap_err();
        assert!(message.contains(rule), "{value:?}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    let long = format!("/etc/a/{}", "x/".repeat(2048));
    assert!(placed(&long).unwrap_err().contains("longer than 4095"));
    assert!(place(&[], "/etc/a/x.toml", None).is_err(), "an empty list allows nothing");
}

#[test]
fn links_and_things_that_are_no_files_are_refused() {
    let (dir, settings) = node();
    let allowed = dir.path().join("allowed");
    symlink(dir.path().join("other/secret.toml"), allowed.join("link.toml")).unwrap();
    symlink("pod.toml", allowed.join("inner.toml")).unwrap();
    symlink(dir.path().join("other"), allowed.join("dir")).unwrap();
    symlink("/proc/self/root", allowed.join("magic")).unwrap();
    mknodat(CWD, allowed.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    write(&allowed.join("writable.toml"), "x");
    std::fs::set_permissions(allowed.join("writable.toml"), PermissionsExt::from_mode(0o666))
        .unwrap();
    write(&allowed.join("large.toml"), vec![b'#'; MAX_DOCUMENT_BYTES + 1]);
    write(&allowed.join("fits.toml"), vec![b'#'; MAX_DOCUMENT_BYTES]);
    let refused = [
        ("link.toml", "symbolic link"),
        ("inner.toml", "symbolic link"),
        ("dir/secret.toml", "symbolic link"),
        ("magic/etc/hostname", "symbolic link"),
        ("fifo", "not a regular file"),
        ("team", "not a regular file"),
        ("absent.toml", "No such file"),
        ("pod.toml/x", "Not a directory"),
        ("writable.toml", "mode 0666"),
        ("large.toml", "more than 1048576 bytes"),
    ];
    for (name, rule) in refused {
        let path = allowed.join(name);
        let message = chosen(&settings, path.to_str()).unwrap_err();
        assert!(message.contains(rule), "{name}: {message}");
        assert!(message.contains(crate::sandbox_spec::ANNOTATION), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    chosen(&settings, allowed.join("fits.toml").to_str()).unwrap();
}

#[test]
fn privileged_devices_and_files_of_others_are_refused() {
    let (dir, settings) = node();
    let allowed = dir.path().join("allowed");
    let device = allowed.join("zero");
    if mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR, rustix::fs::makedev(1, 5))
        .is_err()
    {
        test_command::skip("making a device node needs root");
        return;
    }
    let message = chosen(&settings, device.to_str()).unwrap_err();
    assert!(message.contains("not a regular file"), "{message}");
    for path in [allowed.join("pod.toml"), dir.path().join("node.toml")] {
        chown(&path, Some(65534), None).unwrap();
    }
    for annotation in [allowed.join("pod.toml").to_str(), None] {
        let message = chosen(&settings, annotation).unwrap_err();
        assert!(message.contains("owner is uid 65534"), "{message}");
    }
}

/// While one thread exchanges a directory with a link to a forbidden place, no read may ever
/// come from there.
#[test]
fn exchanging_a_directory_underneath_gains_nothing() {
    let (dir, settings) = node();
    let team = dir.path().join("allowed/team");
    let decoy = dir.path().join("allowed/decoy");
    write(&dir.path().join("other/pod.toml"), "hunter2");
    symlink(dir.path().join("other"), &decoy).unwrap();
    let annotation = team.join("pod.toml");
    let stop = AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &team, CWD, &decoy, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut secrets = 0;
        for _ in 0..20_000 {
            match chosen(&settings, annotation.to_str()) {
                Ok(Some(text)) if text == "team" => read += 1,
                Ok(_) => secrets += 1,
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(secrets, 0);
    });
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}
