use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::namespace::Engine;
use crate::refusal::Refuse;
use crate::sandbox_spec::WithoutSpec;
use crate::settings::{NamespaceFallback, Qemu};
use crate::transport::Transport;

fn write(dir: &TempDir, name: &str, text: &str) {
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
}

/// A main file and drop-ins `config.d/NAME`.
fn node(main: &str, drop_ins: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "config.toml", main);
    for (name, text) in drop_ins {
        write(&dir, &format!("config.d/{name}"), text);
    }
    dir
}

fn load(dir: &TempDir) -> Result<Effective, String> {
    Effective::load(&dir.path().join("config.toml")).map_err(|error| error.to_string())
}

fn qemu(default: &str, by_machine: &[(&str, &str)]) -> Qemu {
    Qemu {
        default: default.into(),
        by_machine: by_machine
            .iter()
            .map(|(machine, path)| ((*machine).into(), path.into()))
            .collect(),
    }
}

#[test]
fn all_keys_and_their_defaults() {
    let all = "qemu = \"/opt/kata/bin/qemu\"\ndocument = \"/etc/d.toml\"\n\
               annotation-allow = [\"/etc/a\", \"/etc/b/\"]\ntransport = \"file\"\n\
               capacity = \"64K\"\nrun-root = \"/x\"\nwithout-spec = \"none\"\n\
                refuse = \"disk\"\nguest-pull = true\nenabled = false\n\
                missing-document = \"late\"\nengine = \"cri-o\"\n\
                namespace-fallback = \"/etc/o.toml\"\n";
    assert_eq!(
        load(&node(all, &[])).unwrap().settings,
        Settings {
            enabled: false,
            qemu: qemu("/opt/kata/bin/qemu", &[]),
            document: Some("/etc/d.toml".into()),
            missing_document: Some(registry_config::NodeError::new("late")),
            engine: Some(Engine::CriO),
            namespace_fallback: NamespaceFallback::Document("/etc/o.toml".into()),
            annotation_allow: vec!["/etc/a".into(), "/etc/b/".into()],
            transport: Transport::File,
            capacity: "65536".parse().ok(),
            run_root: "/x".into(),
            without_spec: Some(WithoutSpec::None),
            refuse: Refuse::Disk,
            guest_pull: true,
            ..Settings::default()
        }
    );
    let none = load(&node("", &[])).unwrap();
    assert_eq!(none.settings, Settings::default());
    assert_eq!(none.settings.run_root, Path::new("/run"));
    assert_eq!(none.settings.qemu, qemu("/usr/bin/qemu-system-x86_64", &[]));
    assert_eq!(*none.origins.of("qemu.default"), Origin::BuiltIn);
}

#[test]
fn later_files_win_per_key() {
    let dir = node(
        "document = \"/main\"\ntransport = \"file\"\nannotation-allow = [\"/a\", \"/b\"]\n",
        &[
            ("90-last.toml", "document = \"/90\"\n"),
            ("10-first.toml", "\ndocument = \"/10\"\nannotation-allow = []\n"),
            ("9-text.toml", "run-root = \"/nine\"\n"),
            ("50-disabled.toml.bak", "document = 7\n"),
            (".60-hidden.toml", "document = 7\n"),
            ("README", "no TOML"),
        ],
    );
    let effective = load(&dir).unwrap();
    let names: Vec<_> =
        effective.files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    // By bytes, as Kata sorts its own drop-ins: "9-" is behind "10-" and before "90-".
    assert_eq!(names, ["config.toml", "10-first.toml", "9-text.toml", "90-last.toml"]);
    let settings = &effective.settings;
    assert_eq!(settings.document.as_deref(), Some(Path::new("/90")));
    assert!(settings.annotation_allow.is_empty());
    assert_eq!(settings.transport, Transport::File);
    assert_eq!(settings.run_root, Path::new("/nine"));
    let origin = |origin: &Origin| {
        let shown = origin.to_string();
        let place = dir.path().to_str().unwrap();
        shown.strip_prefix(place).unwrap_or(&shown).to_owned()
    };
    for (key, expected) in [
        ("document", "/config.d/90-last.toml:1"),
        ("annotation-allow", "/config.d/10-first.toml:3"),
        ("transport", "/config.toml:2"),
        ("qemu.default", "built in"),
    ] {
        assert_eq!(origin(effective.origins.of(key)), expected, "{key}");
    }
}

#[test]
fn qemu_is_merged_by_machine_type() {
    let cases: [(&str, &[&str], Qemu); 6] = [
        ("[qemu]\nq35 = \"/q\"\n", &[], qemu("/usr/bin/qemu-system-x86_64", &[("q35", "/q")])),
        ("[qemu]\nq35 = \"/q\"\ndefault = \"/d\"\n", &[], qemu("/d", &[("q35", "/q")])),
        (
            "[qemu]\nq35 = \"/q\"\n",
            &["[qemu]\nmicrovm = \"/m\"\n", "qemu.q35 = \"/other\"\n"],
            qemu("/usr/bin/qemu-system-x86_64", &[("microvm", "/m"), ("q35", "/other")]),
        ),
        ("qemu = \"/d\"\n", &["qemu.q35 = \"/q\"\n"], qemu("/d", &[("q35", "/q")])),
        ("[qemu]\nq35 = \"/q\"\ndefault = \"/d\"\n", &["qemu = \"/all\"\n"], qemu("/all", &[])),
        (
            "qemu = { s390-ccw-virtio = \"/s\" }\n",
            &[],
            qemu("/usr/bin/qemu-system-x86_64", &[("s390-ccw-virtio", "/s")]),
        ),
    ];
    for (main, drop_ins, expected) in cases {
        let names: Vec<String> = (0..drop_ins.len()).map(|n| format!("{n}.toml")).collect();
        let files: Vec<_> =
            names.iter().map(String::as_str).zip(drop_ins.iter().copied()).collect();
        let effective = load(&node(main, &files)).unwrap();
        assert_eq!(effective.settings.qemu, expected, "{main} {drop_ins:?}");
        for machine in expected.by_machine.keys() {
            let origin = effective.origins.of(&format!("qemu.{machine}"));
            assert_ne!(*origin, Origin::BuiltIn, "{machine}");
        }
        assert_eq!(
            effective.origins.0.len() - expected.by_machine.len(),
            usize::from(expected.default != Path::new("/usr/bin/qemu-system-x86_64"))
        );
    }
}

#[test]
fn a_drop_in_that_cannot_be_used_is_not_skipped() {
    let broken = |name: &str, change: &dyn Fn(&Path)| {
        let dir = node("", &[("50-a.toml", "document = \"/x\"\n")]);
        change(&dir.path().join("config.d"));
        let message = load(&dir).unwrap_err();
        assert!(message.contains(name), "{message}");
        message
    };
    let set_mode =
        |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
    let message = broken("50-a.toml", &|dir| {
        set_mode(&dir.join("50-a.toml"), 0o666).unwrap();
    });
    assert!(message.contains("mode 0666"), "{message}");
    let message = broken("/config.d", &|dir| set_mode(dir, 0o777).unwrap());
    assert!(message.contains("mode 0777"), "{message}");
    let message = broken("60-link.toml", &|dir| {
        symlink("50-a.toml", dir.join("60-link.toml")).unwrap();
    });
    assert!(message.contains("symbolic link"), "{message}");
    let message = broken("60-folder.toml", &|dir| {
        std::fs::create_dir(dir.join("60-folder.toml")).unwrap();
    });
    assert!(message.contains("not a regular file"), "{message}");
    let message = broken("60-bad.toml:2", &|dir| {
        let path = dir.join("60-bad.toml");
        std::fs::write(&path, "\ndocumnet = \"/x\"\n").unwrap();
        set_mode(&path, 0o600).unwrap();
    });
    assert!(message.contains("documnet"), "{message}");
    let message = broken("config.d", &|dir| {
        std::fs::remove_dir_all(dir).unwrap();
        std::fs::write(dir, "").unwrap();
    });
    assert!(message.contains("Not a directory"), "{message}");
}
