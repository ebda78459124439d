//! Whole command lines of Kata's two runtimes: QEMU gets each one as it is, and the disk behind it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kata_configdev::invocation::Invocation;
use kata_configdev::option_list::value_of;
use sha2::{Digest, Sha256, Sha384};

use crate::node::Node;
use crate::process::{WAITING_PROGRAM, Waiting};

const VECTORS: [&str; 6] = [
    "go-plain",
    "go-snp",
    "go-tdx",
    "runtime-rs-plain",
    "runtime-rs-snp",
    "runtime-rs-tdx",
];

const SANDBOX: &str = "3f1c0d9a5b7e42688c1f6a0e9d3b5c7741a2e8f06b9d4c35a7e1f20b8d6c9e04";

/// Options whose list names a thing with `id` or `node-name`; one name space each for devices,
/// objects and nodes.
const NAMING_OPTIONS: [&str; 6] = [
    "-device",
    "-drive",
    "-blockdev",
    "-object",
    "-chardev",
    "-netdev",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../qemu-fixtures/arguments")
        .join(name)
}

fn vector(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    text.lines().map(String::from).collect()
}

fn node() -> Node {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", WAITING_PROGRAM);
    node.set_qemu(node.path("qemu"));
    node
}

/// What the wrapper hands to `exec` for `arguments`.
fn handed_on(node: &Node, arguments: &[String]) -> Vec<String> {
    let mut command = node.wrapper();
    command.args(arguments);
    let waiting = Waiting::start(command);
    let found = waiting
        .arguments()
        .into_iter()
        .map(|argument| argument.into_string().unwrap())
        .collect();
    let (status, stderr) = waiting.finish();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    found
}

/// The values of `option`, in order.
fn values<'a>(arguments: &'a [String], option: &str) -> Vec<&'a str> {
    let pairs = arguments.windows(2);
    pairs
        .filter(|pair| pair[0] == option)
        .map(|pair| pair[1].as_str())
        .collect()
}

fn value(list: &str, implied: &str, key: &str) -> Option<String> {
    value_of(list.as_bytes(), implied, key).map(|value| String::from_utf8(value).unwrap())
}

/// Every name that the arguments give to a device, an object or a block node.
fn names(arguments: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for list in NAMING_OPTIONS
        .iter()
        .flat_map(|option| values(arguments, option))
    {
        for key in ["id", "node-name"] {
            names.extend(value(list, "driver", key));
        }
    }
    names
}

/// Takes the disk's arguments apart and holds them against those of the runtime.
fn assert_disk(theirs: &[String], ours: &[String], driver: &str, bus: Option<&str>) {
    let [add_fd, set, blockdev, node, device, properties] = ours else {
        panic!("{ours:?}");
    };
    assert_eq!(
        [add_fd, blockdev, device],
        ["-add-fd", "-blockdev", "-device"]
    );

    let number: u64 = value(set, "", "set").unwrap().parse().unwrap();
    for list in values(theirs, "-add-fd") {
        let their: u64 = value(list, "", "set").unwrap().parse().unwrap();
        assert!(
            number > their + 1000,
            "far from the sets that a runtime adds later"
        );
    }
    let opaque = value(set, "", "opaque").unwrap();
    assert!(
        !opaque.starts_with("kata-block:"),
        "runtime-rs would miss it among its own"
    );
    assert!(value(set, "", "fd").unwrap().parse::<u32>().unwrap() > 2);

    assert_eq!(
        value(node, "driver", "file.filename"),
        Some(format!("/dev/fdset/{number}"))
    );
    for key in ["read-only", "file.read-only"] {
        assert_eq!(value(node, "driver", key).as_deref(), Some("on"), "{key}");
    }
    assert_eq!(
        value(node, "driver", "node-name"),
        value(properties, "driver", "drive")
    );
    assert_eq!(
        value(properties, "driver", "driver").as_deref(),
        Some(driver)
    );
    assert_eq!(value(properties, "driver", "bus").as_deref(), bus);
    assert_eq!(
        value(properties, "driver", "serial").as_deref(),
        Some("imagepuller")
    );
    assert_eq!(value(properties, "driver", "addr"), None, "no fixed slot");
    assert!(
        names(theirs).is_disjoint(&names(ours)),
        "no name is taken twice"
    );
}

#[test]
fn every_vector_reaches_qemu_as_it_is_with_the_disk_last() {
    let node = node();
    for name in VECTORS {
        let theirs = vector(name);
        let found = handed_on(&node, &theirs);
        assert!(found.starts_with(&theirs), "{name}");
        assert_disk(
            &theirs,
            &found[theirs.len()..],
            "virtio-blk-pci",
            Some("pcie.0"),
        );
    }
}

#[test]
fn the_vectors_are_what_they_claim_to_be() {
    for name in VECTORS {
        let arguments = vector(name);
        let invocation =
            Invocation::read(&arguments.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(invocation.sandbox.as_deref(), Some(SANDBOX), "{name}");
        assert_eq!(invocation.machine.as_deref(), Some("q35"), "{name}");
        assert!(!invocation.incoming, "{name}");
        let machine = values(&arguments, "-machine")[0];
        let (runtime, guest) = name.rsplit_once('-').unwrap();
        assert_eq!(
            value(machine, "type", "confidential-guest-support").unwrap_or("plain".into()),
            guest,
            "{name}"
        );
        let sets = values(&arguments, "-add-fd");
        assert_eq!(sets.is_empty(), runtime == "go", "{name}");
        for (set, expected) in sets.into_iter().zip(1..) {
            assert_eq!(value(set, "", "set"), Some(expected.to_string()), "{name}");
            assert!(
                value(set, "", "opaque").unwrap().starts_with("kata-block:"),
                "{name}"
            );
        }
        assert_eq!(
            values(&arguments, "-pidfile").is_empty(),
            runtime == "runtime-rs",
            "{name}"
        );
    }
}

/// The measured document's digest comes out of the wrapper as it went in.
#[test]
fn the_measured_digest_is_not_touched() {
    let node = node();
    let document =
        |algorithm: &str| std::fs::read(fixture(&format!("initdata-{algorithm}.toml"))).unwrap();
    for runtime in ["go", "runtime-rs"] {
        let snp = handed_on(&node, &vector(&format!("{runtime}-snp")));
        let object = values(&snp, "-object")
            .into_iter()
            .find(|object| object.starts_with("sev-snp-guest,id=snp,"))
            .unwrap();
        let host_data = value(object, "qom-type", "host-data").unwrap();
        assert_eq!(
            STANDARD.decode(host_data).unwrap(),
            *Sha256::digest(document("sha256")),
            "{runtime}"
        );

        let tdx = handed_on(&node, &vector(&format!("{runtime}-tdx")));
        let object = values(&tdx, "-object")
            .into_iter()
            .find(|object| object.starts_with('{'))
            .unwrap();
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(
            (&object["qom-type"], &object["id"]),
            (&"tdx-guest".into(), &"tdx".into())
        );
        assert_eq!(
            STANDARD
                .decode(object["mrconfigid"].as_str().unwrap())
                .unwrap(),
            *Sha384::digest(document("sha384")),
            "{runtime}"
        );
    }
}

#[test]
fn every_machine_type_gets_its_device() {
    let node = node();
    for (machine, driver, bus) in [
        ("q35", "virtio-blk-pci", Some("pcie.0")),
        ("pc-q35-9.2", "virtio-blk-pci", Some("pcie.0")),
        ("virt", "virtio-blk-pci", Some("pcie.0")),
        ("pc", "virtio-blk-pci", Some("pci.0")),
        ("microvm", "virtio-blk-device", None),
        ("s390-ccw-virtio", "virtio-blk-ccw", None),
    ] {
        for name in ["go-plain", "runtime-rs-plain"] {
            let mut theirs = vector(name);
            for argument in &mut theirs {
                if let Some(rest) = argument.strip_prefix("q35,") {
                    *argument = format!("{machine},{rest}");
                }
            }
            let found = handed_on(&node, &theirs);
            assert!(found.starts_with(&theirs), "{machine}");
            assert_disk(&theirs, &found[theirs.len()..], driver, bus);
        }
    }
}

/// With the transport `file` there is no descriptor to hand over, and the sandbox's path instead.
#[test]
fn a_vector_gets_its_image_as_a_file() {
    let node = node();
    let mut settings = std::fs::read_to_string(node.path("settings.toml")).unwrap();
    std::fs::create_dir(node.path("run,0")).unwrap();
    settings += &format!(
        "transport = \"file\"\nrun-root = {:?}\n",
        node.path("run,0")
    );
    node.write("settings.toml", settings);
    for name in ["go-snp", "runtime-rs-tdx"] {
        let theirs = vector(name);
        let found = handed_on(&node, &theirs);
        assert!(found.starts_with(&theirs), "{name}");
        let ours = &found[theirs.len()..];
        assert!(values(ours, "-add-fd").is_empty(), "{ours:?}");
        let path = value(values(ours, "-blockdev")[0], "driver", "file.filename").unwrap();
        let image = std::fs::read(&path).unwrap();
        assert!(
            path.contains(SANDBOX) && image.starts_with(b"imgpullr"),
            "{path}"
        );
        assert!(names(&theirs).is_disjoint(&names(ours)), "{name}");
    }
}

#[test]
fn sandbox_names_of_every_form() {
    let node = node();
    let with_name = |name: &str| {
        let mut arguments = vector("go-plain");
        arguments[1] = name.into();
        arguments
    };
    for name in [
        "sandbox-a,debug-threads=on",
        "sandbox-a,,b,debug-threads=on",
        "sandbox-a,,,,b",
        "guest=sandbox-a,debug-threads=on",
        "debug-threads=on,guest=sandbox-a",
    ] {
        let theirs = with_name(name);
        let found = handed_on(&node, &theirs);
        assert!(found.starts_with(&theirs), "{name}");
        assert_eq!(found.len(), theirs.len() + 6, "{name}");
    }
    for name in ["other", "sandbox-", "xsandbox-a", "debug-threads=on"] {
        let theirs = with_name(name);
        assert_eq!(handed_on(&node, &theirs), theirs, "{name}");
    }
}
