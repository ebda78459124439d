//! The agent in a container: paths of the node below a mount point.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use config_image::{Magic, decode, encode};
use kata_configdev::capacity::{DEFAULT_CAPACITY_BYTES, pad};
use kata_configdev::node_agent::rotation::Rotation;
use kata_configdev::node_agent::sandboxes;
use kata_configdev::sandbox_id::SandboxId;
use kata_configdev::shared_image;
use kata_configdev::shared_image::record::{self, Record};

use crate::installer::machine::{DOCUMENT, Machine, SETTINGS, document, parse};

/// In a container the node is below a directory, and of its processes nothing is seen. What the
/// records name are the node's own paths.
#[test]
fn in_a_container_the_nodes_paths_are_found_below_the_mounts() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    fs::create_dir(machine.host("run")).unwrap();
    let text = format!("sandboxes = true\n{}", machine.configuration());
    let options = parse(&text).unwrap();
    assert!(!options.is_on_host_network());
    node_installer::install(&options).unwrap();
    let (run, id) = (machine.host("run"), SandboxId::parse("box").unwrap());
    let record = |document: &str| Record {
        document: Some(document.into()),
        held: true,
        ..Record::default()
    };
    let keep = || sandboxes::keep(&options, &mut Rotation::default());
    let image = pad(encode(Magic::IMAGEPULLER, b"").unwrap(), DEFAULT_CAPACITY_BYTES);
    let path = shared_image::put(&run, &id, &image).unwrap();
    let hold = record::put(&run, &id, &record(&format!("/{DOCUMENT}"))).unwrap();
    let looked = keep();
    assert_eq!((looked.updated, looked.warnings), (1, vec![]));
    let state = ("default".to_owned(), "current");
    assert_eq!(looked.sandboxes, [(state, 1)].into());
    let found = decode(fs::read(&path).unwrap().as_slice(), Magic::IMAGEPULLER).unwrap();
    assert_eq!(*found.document, document("one").into_bytes());
    // Neither a document that is not mounted nor a link out of the node is followed.
    let outside = machine.path("outside.toml");
    fs::write(&outside, document("outside")).unwrap();
    std::os::unix::fs::symlink(&outside, machine.host("etc/link.toml")).unwrap();
    drop(hold);
    for (document, state) in [("/etc/absent.toml", "unseen"), ("/etc/link.toml", "behind")] {
        let _hold = record::put(&run, &id, &record(document)).unwrap();
        let looked = keep();
        assert_eq!(looked.sandboxes, [((String::new(), state), 1)].into());
        assert_eq!(looked.updated, 0, "{looked:?}");
    }
    // Nobody holds the last one any more.
    assert_eq!(keep().swept, 1);
    assert!(!path.exists());
}

/// Each running sandbox gets what is new for its own namespace, and one that has what the settings
/// name instead gets its own document as soon as that is there.
#[test]
fn a_sandbox_gets_the_new_document_of_its_own_namespace() {
    let machine = Machine::new();
    fs::create_dir_all(machine.host("run")).unwrap();
    fs::create_dir(machine.host("etc/teams")).unwrap();
    let text = format!("sandboxes = true\n{}", machine.configuration());
    let options = parse(&text).unwrap();
    node_installer::install(&options).unwrap();
    // As an administrator names them, whoever writes the documents.
    let settings = "engine = \"cri-o\"\ndocument = \"/etc/teams/{namespace}.toml\"\n\
        namespace-fallback = \"/etc/teams/_other.toml\"\n";
    fs::write(machine.host(SETTINGS), settings).unwrap();
    let write = |name: &str, content: &str| {
        let path = machine.host(&format!("etc/teams/{name}.toml"));
        fs::write(path, document(content)).unwrap();
    };
    write("team-a", "a-1");
    write("team-b", "b-1");
    write("_other", "other-1");
    let run = machine.host("run");
    let start = |namespace: &str, fallback: Option<&str>| {
        let id = SandboxId::parse(namespace).unwrap();
        let record = Record {
            document: Some(format!("/etc/teams/{namespace}.toml").into()),
            fallback: fallback.map(Into::into),
            held: true,
            ..Record::default()
        };
        let image = encode(Magic::IMAGEPULLER, b"").unwrap();
        let image = pad(image, DEFAULT_CAPACITY_BYTES);
        shared_image::put(&run, &id, &image).unwrap();
        record::put(&run, &id, &record).unwrap()
    };
    let _a = start("team-a", None);
    let _b = start("team-b", None);
    let _c = start("team-c", Some("/etc/teams/_other.toml"));
    let keep = || {
        let looked = sandboxes::keep(&options, &mut Rotation::default());
        assert_eq!(looked.warnings, [""; 0]);
        let state = ("default".to_owned(), "current");
        assert_eq!(looked.sandboxes.get(&state), Some(&3), "{looked:?}");
        ["team-a", "team-b", "team-c"].map(|id| {
            let id = SandboxId::parse(id).unwrap();
            let path = shared_image::path(&run, &id);
            let found = decode(fs::read(path).unwrap().as_slice(), Magic::IMAGEPULLER).unwrap();
            String::from_utf8(found.document.to_vec()).unwrap()
        })
    };
    assert_eq!(keep(), ["a-1", "b-1", "other-1"].map(document));
    write("team-a", "a-2");
    assert_eq!(keep(), ["a-2", "b-1", "other-1"].map(document));
    write("_other", "other-2");
    assert_eq!(keep(), ["a-2", "b-1", "other-2"].map(document));
    // The wrapper would look into no directory that others can write: nobody falls back either.
    let set_mode = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(machine.host("etc/teams"), permissions).unwrap();
    };
    write("_other", "other-3");
    set_mode(0o720);
    let looked = sandboxes::keep(&options, &mut Rotation::default());
    let counted = ["current", "unseen"].map(|state| {
        let of_state = looked.sandboxes.get(&("default".to_owned(), state));
        of_state.copied()
    });
    assert_eq!((counted, looked.updated), ([Some(2), Some(1)], 0));
    set_mode(0o755);
    assert_eq!(keep(), ["a-2", "b-1", "other-3"].map(document));
    // Without the directory everything is late, and nobody falls back.
    fs::rename(machine.host("etc/teams"), machine.host("etc/away")).unwrap();
    let looked = sandboxes::keep(&options, &mut Rotation::default());
    let state = ("default".to_owned(), "unseen");
    assert_eq!(looked.sandboxes.get(&state), Some(&3), "{looked:?}");
    fs::rename(machine.host("etc/away"), machine.host("etc/teams")).unwrap();
    write("team-c", "c-1");
    write("team-b", "b-2");
    assert_eq!(keep(), ["a-2", "b-2", "c-1"].map(document));
    // What completes them all.
    let base = format!("{settings}namespace-base = \"/etc/teams/_base.toml\"\n");
    fs::write(machine.host(SETTINGS), base).unwrap();
    for site in ["site-1", "site-2"] {
        write("_base", site);
        for (text, own) in keep().iter().zip(["a-2", "b-2", "c-1"]) {
            assert!(text.contains(site) && text.contains(own), "{text}");
        }
    }
}

/// After a removal nobody came again, and what dead sandboxes had left stayed in /run.
#[test]
fn a_removal_sweeps_and_says_which_sandboxes_still_have_something() {
    let machine = Machine::new();
    fs::create_dir(machine.host("run")).unwrap();
    let text = format!("sandboxes = true\n{}", machine.configuration());
    let mut options = parse(&text).unwrap();
    options.sets.clear();
    let run = machine.host("run");
    let record =
        Record { document: Some(format!("/{DOCUMENT}").into()), held: true, ..Record::default() };
    let put = |id: &str| {
        let id = SandboxId::parse(id).unwrap();
        shared_image::put(&run, &id, &[0; 512]).unwrap();
        record::put(&run, &id, &record).unwrap()
    };
    drop(put("dead"));
    let _hold = put("living");
    let looked = sandboxes::keep(&options, &mut Rotation::default());
    assert_eq!(looked.swept, 1);
    // This program is in the container, and the paths are the node's.
    let line = "sandboxes that still have a configuration in /run: 1; ";
    let command = "(cd /run/kata-containers/shared/initdata && for record in ";
    let [remaining] = &looked.remaining[..] else {
        panic!("{looked:?}");
    };
    assert!(remaining.starts_with(line) && remaining.contains(command), "{looked:?}");
}
