//! Whole command lines of Kata's two runtimes, as they were recorded: QEMU gets each one as it is,
//! with every descriptor and variable, and the disk behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use command_fds::{CommandFdExt, FdMapping};
use kata_configdev::option_list::value_of;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use sha2::{Digest, Sha256, Sha384};
use vm_harness::vector::{self, Vector};

use crate::wrapper::node::Node;
use crate::wrapper::process::{Descriptor, WAITING_PROGRAM, Waiting};

/// VMs that are no sandbox's own: `factory.rs` says what they get.
const FACTORY: [&str; 3] = ["go-template", "go-template-clone", "go-vmcache"];

/// One of each runtime whose arguments these tests change.
pub const CHANGED: [&str; 2] = ["go-coco-dev-extension", "runtime-rs-coco-dev-image-blk-net"];

/// As [`WAITING_PROGRAM`], for a caller that leaves it no descriptor to wait at.
const STOPPED_PROGRAM: &str = "#!/bin/sh\nkill -STOP $$\nexit 7\n";

/// Options whose list names a thing with `id` or `node-name`; one name space each for devices,
/// objects and nodes.
const NAMING_OPTIONS: [&str; 6] =
    ["-device", "-drive", "-blockdev", "-object", "-chardev", "-netdev"];

pub fn vector(name: &str) -> Vec<String> {
    Vector::read(name).unwrap().arguments
}

fn node(program: &str) -> Node {
    let node = Node::new("/bin/true");
    node.program("qemu", "700", program);
    node.set_qemu(node.path("qemu"));
    node
}

/// Starts the wrapper as the runtime started its hypervisor, and waits until QEMU's stand-in runs.
///
/// Sockets are sockets; what else is no standard descriptor is the null device, opened as the
/// runtime opened its own.
fn start(node: &Node, vector: &Vector) -> Waiting {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"));
    command.env_clear().envs(vector.environment().unwrap());
    node.place(&mut command);
    command
        .args(&vector.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let inherited = vector.descriptors.iter().filter(|one| one.number > 2);
    let mappings = inherited.map(|one| FdMapping {
        parent_fd: if one.target.starts_with("socket") {
            let path = node.path(&format!("{}-{}.sock", vector.name, one.number));
            OwnedFd::from(UnixListener::bind(path).unwrap())
        } else {
            let flags = one.flags.unwrap_or(OFlags::RDWR.bits());
            let flags = OFlags::from_bits_retain(flags) | OFlags::CLOEXEC;
            rustix::fs::open("/dev/null", flags, Mode::empty()).unwrap()
        },
        child_fd: one.number,
    });
    command.fd_mappings(mappings.collect()).unwrap();
    let child = command.spawn().unwrap();
    let (_, status) =
        waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED).unwrap().unwrap();
    if !status.stopped() {
        let output = child.wait_with_output().unwrap();
        panic!("{}: {status:?}: {output:?}", vector.name);
    }
    Waiting { child }
}

/// What the wrapper hands to `exec` for `arguments`.
fn handed_on(node: &Node, arguments: &[String]) -> Vec<String> {
    let mut command = node.wrapper();
    command.args(arguments);
    let waiting = Waiting::start(command);
    let found =
        waiting.arguments().into_iter().map(|argument| argument.into_string().unwrap()).collect();
    let (status, stderr) = waiting.finish();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    found
}

/// The values of `option`, in order.
fn values<'a>(arguments: &'a [String], option: &str) -> Vec<&'a str> {
    let pairs = arguments.windows(2);
    pairs.filter(|pair| pair[0] == option).map(|pair| pair[1].as_str()).collect()
}

fn value(list: &str, implied: &str, key: &str) -> Option<String> {
    value_of(list.as_bytes(), implied, key).map(|value| String::from_utf8(value).unwrap())
}

/// Every name that the arguments give to a device, an object or a block node.
fn names(arguments: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for list in NAMING_OPTIONS.iter().flat_map(|option| values(arguments, option)) {
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
    assert_eq!([add_fd, blockdev, device], ["-add-fd", "-blockdev", "-device"]);

    let number: u64 = value(set, "", "set").unwrap().parse().unwrap();
    for list in values(theirs, "-add-fd") {
        let their: u64 = value(list, "", "set").unwrap().parse().unwrap();
        assert!(number > their + 1000, "far from the sets that a runtime adds later");
    }
    let opaque = value(set, "", "opaque").unwrap();
    assert!(!opaque.starts_with("kata-block:"), "runtime-rs would miss it among its own");
    assert!(value(set, "", "fd").unwrap().parse::<u32>().unwrap() > 2);

    assert_eq!(value(node, "driver", "file.filename"), Some(format!("/dev/fdset/{number}")));
    for key in ["read-only", "file.read-only"] {
        assert_eq!(value(node, "driver", key).as_deref(), Some("on"), "{key}");
    }
    assert_eq!(value(node, "driver", "node-name"), value(properties, "driver", "drive"));
    assert_eq!(value(properties, "driver", "driver").as_deref(), Some(driver));
    assert_eq!(value(properties, "driver", "bus").as_deref(), bus);
    assert_eq!(value(properties, "driver", "serial").as_deref(), Some("imagepuller"));
    assert_eq!(value(properties, "driver", "addr"), None, "no fixed slot");
    assert!(names(theirs).is_disjoint(&names(ours)), "no name is taken twice");
}

#[test]
fn every_vector_reaches_qemu_as_it_is_with_the_disk_last() {
    let node = node(STOPPED_PROGRAM);
    let vectors = Vector::all(&vector::folder()).unwrap();
    assert_eq!(vectors.len(), 30, "16 and 3 of Go, 11 of runtime-rs");
    for vector in vectors {
        if !FACTORY.contains(&vector.name.as_str()) {
            assert_handed_on(&node, &vector);
        }
    }
}

fn assert_handed_on(node: &Node, vector: &Vector) {
    let name = &vector.name;
    let waiting = start(node, vector);

    let found: Vec<_> =
        waiting.arguments().into_iter().map(|argument| argument.into_string().unwrap()).collect();
    assert!(found.starts_with(&vector.arguments), "{name}");
    let ours = &found[vector.arguments.len()..];
    let (descriptor, set) = split_descriptor(&ours[1]);
    let recorded = vector.appended().unwrap();
    assert_eq!(set, split_descriptor(&recorded[1]).1, "{name}");
    assert_eq!((&ours[0], &ours[2..]), (&recorded[0], &recorded[2..]), "{name}");
    assert_disk(&vector.arguments, ours, "virtio-blk-pci", Some("pcie.0"));

    let mut descriptors = waiting.descriptors();
    let image = descriptors.remove(&descriptor).unwrap();
    assert!(image.target.starts_with("/memfd:imagepuller (deleted)"), "{name}: {image:?}");
    let handed_over: BTreeMap<u32, _> = vector
        .descriptors
        .iter()
        .filter(|one| one.number > 2)
        .map(|one| (one.number.try_into().unwrap(), one.flags))
        .collect();
    for (number, flags) in &handed_over {
        let found = descriptors.remove(number).unwrap().flags();
        assert!(flags.is_none_or(|flags| flags == found), "{name}: {number}");
    }
    // What is left is the stand-in's own, or came to these tests from whoever started them.
    descriptors
        .retain(|number, found| found.target != node.path("qemu") && !survives_exec(*number));
    assert!(descriptors.is_empty(), "{name}: {descriptors:?}");

    let mut variables = waiting.environment();
    variables
        .retain(|variable| !variable.as_encoded_bytes().starts_with(b"KATA_CONFIGDEV_CONFIG="));
    variables.sort();
    let mut expected: Vec<OsString> = vector
        .environment()
        .unwrap()
        .into_iter()
        .map(|(key, value)| format!("{key}={value}").into())
        .collect();
    expected.sort();
    assert_eq!(variables, expected, "{name}");

    kill_process(Pid::from_child(&waiting.child), Signal::CONT).unwrap();
    let output = waiting.child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(7), &b""[..]), "{name}");
}

/// Whether this process leaves its descriptor `number` to its children.
fn survives_exec(number: u32) -> bool {
    let notes = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
    notes.is_ok_and(|notes| {
        let target = PathBuf::new();
        Descriptor { target, notes }.flags() & OFlags::CLOEXEC.bits() == 0
    })
}

/// `fd=N,REST`
fn split_descriptor(set: &str) -> (u32, &str) {
    let (number, rest) = set.strip_prefix("fd=").unwrap().split_once(',').unwrap();
    (number.parse().unwrap(), rest)
}

/// The recorded digests are those of the documents beside them: Go's whole, for SNP and TDX.
/// runtime-rs was given another document, for SNP cut to 32 bytes.
#[test]
fn the_recorded_digests_are_those_of_the_documents() {
    let digest = |name: &str| {
        let vector = Vector::read(name).unwrap();
        let object = vector
            .values("-object")
            .find(|object| object.contains("-guest\"") || object.starts_with("sev-snp-guest,"));
        let object = object.unwrap();
        let text = if object.starts_with('{') {
            let object: serde_json::Value = serde_json::from_str(object).unwrap();
            object["mrconfigid"].as_str().unwrap().to_owned()
        } else {
            value(object, "qom-type", "host-data").unwrap()
        };
        STANDARD.decode(text).unwrap()
    };
    let document = |algorithm: &str| {
        std::fs::read(vector::folder().join(format!("initdata-{algorithm}.toml"))).unwrap()
    };
    assert_eq!(digest("go-snp-initdata"), *Sha256::digest(document("sha256")));
    for name in ["go-tdx-initdata", "go-tdx-initdata-qgs"] {
        assert_eq!(digest(name), *Sha384::digest(document("sha384")), "{name}");
    }
    let tdx = digest("runtime-rs-tdx-initdata");
    assert_eq!((tdx.len(), digest("runtime-rs-snp-initdata")), (48, tdx[..32].to_vec()));
}

#[test]
fn every_machine_type_gets_its_device() {
    let node = node(WAITING_PROGRAM);
    for (machine, driver, bus) in [
        ("q35", "virtio-blk-pci", Some("pcie.0")),
        ("pc-q35-9.2", "virtio-blk-pci", Some("pcie.0")),
        ("virt", "virtio-blk-pci", Some("pcie.0")),
        ("pc", "virtio-blk-pci", Some("pci.0")),
        ("microvm", "virtio-blk-device", None),
        ("s390-ccw-virtio", "virtio-blk-ccw", None),
    ] {
        for name in CHANGED {
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
    let node = node(WAITING_PROGRAM);
    let mut settings = std::fs::read_to_string(node.path("settings.toml")).unwrap();
    std::fs::create_dir(node.path("run,0")).unwrap();
    settings += &format!("transport = \"file\"\nrun-root = {:?}\n", node.path("run,0"));
    node.write("settings.toml", settings);
    for name in CHANGED {
        let theirs = vector(name);
        let found = handed_on(&node, &theirs);
        assert!(found.starts_with(&theirs), "{name}");
        let ours = &found[theirs.len()..];
        assert!(values(ours, "-add-fd").is_empty(), "{ours:?}");
        let path = value(values(ours, "-blockdev")[0], "driver", "file.filename").unwrap();
        let image = std::fs::read(&path).unwrap();
        assert!(
            path.contains(&theirs[1]["sandbox-".len()..]) && image.starts_with(b"imgpullr"),
            "{path}"
        );
        assert!(names(&theirs).is_disjoint(&names(ours)), "{name}");
    }
}

#[test]
fn sandbox_names_of_every_form() {
    let node = node(WAITING_PROGRAM);
    let with_name = |name: &str| {
        let mut arguments = vector(CHANGED[0]);
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
