//! `check-image`: an image whose parts fit together, and each way in which one does not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};
use tempfile::TempDir;

const AGENT: &str = "usr/bin/kata-agent";
const UNITS: &str = "usr/lib/systemd/system";
const HUB: &str = "usr/local/bin/confidential-data-hub";
const ATTESTATION: &str = "usr/local/bin/attestation-agent";
const SETTINGS: &str = "etc/initdata-processor.toml";

/// Words of an agent that asks the puller, and of one that asks the hub.
const POLICIES: &str = "\0KATA_AGENT_POLICY_FILE\0/run/guest-services/imagepull.socket\0";
const STOCK: &str = "\0KATA_AGENT_POLICY_FILE\0/run/confidential-containers/cdh.sock\0";
const LOOKS: &str = "\0Initdata find potential device\0";

const CONFIG: &str = "CONFIG_DEVTMPFS=y\nCONFIG_TMPFS=y\nCONFIG_TMPFS_XATTR=y\nCONFIG_UNIX=y\n\
    CONFIG_SECCOMP_FILTER=y\nCONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_BLK=m\nCONFIG_SCSI_VIRTIO=y\n\
    CONFIG_BLK_DEV_SD=y\nCONFIG_OVERLAY_FS=y\nCONFIG_SECURITY_LANDLOCK=y\nCONFIG_SEV_GUEST=y\n\
    CONFIG_LSM=\"landlock,yama\"\nCONFIG_BLK_DEV_LOOP=y\nCONFIG_VIRTIO_VSOCKETS=y\n";

/// The front on the hub's socket.
const FRONT: &str = "[Service]\nExecStart=/usr/bin/imagepuller hub\n";
const WANTS_FRONT: &str = "[Unit]\nWants=front.service\n";
const FRONT_DROP_IN: &str = "usr/lib/systemd/system/kata-agent.service.d/70-front.conf";
const FRONT_UNIT: &str = "usr/lib/systemd/system/front.service";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/guest")
}

fn put(root: &TempDir, path: &str, content: &str) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn copy(root: &TempDir, from: &Path, to: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = format!("{to}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            copy(root, &path, &to);
        } else {
            put(root, &to, &fs::read_to_string(path).unwrap());
        }
    }
}

/// An image without a fault, with units as they are shipped.
fn image() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    copy(&root, &deploy().join("systemd"), UNITS);
    for (path, content) in [
        ("usr/bin/initdata-processor", ""),
        ("usr/bin/imagepuller", ""),
        (AGENT, POLICIES),
        ("usr/lib/systemd/system/kata-agent.service", "[Service]\n"),
        ("etc/kata-opa/default-policy.rego", "package agent_policy\n"),
        ("boot/config-6", CONFIG),
        ("lib/modules/6/modules.dep", "kernel/drivers/block/virtio_blk.ko.xz:\n"),
    ] {
        put(&root, path, content);
    }
    root
}

/// Masks a unit or a drop-in in an image with the node that a root of mmdebstrap has.
fn mask(root: &TempDir, path: &str) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    symlink("/dev/null", path).unwrap();
}

/// The exit code and what was printed.
fn check(root: &TempDir, more: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
        .arg("check-image")
        .arg(root.path())
        .args(more)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn parameter(value: &str) -> Vec<String> {
    let value = format!("agent.guest_components_procs={value}");
    vec!["--kernel-parameters".to_owned(), value]
}

/// Files put or, without content, removed; arguments; what is found, an error or a warning.
type Row<'a> = (&'a [(&'a str, Option<&'a str>)], &'a str, i32, &'a [&'a str]);

#[test]
fn each_part_that_does_not_fit_is_found_and_nothing_else() {
    let looks = format!("{POLICIES}{LOOKS}");
    let stock = format!("{STOCK}{LOOKS}");
    let script = fs::read_to_string(deploy().join("init-example")).unwrap();
    let told = "#!/bin/sh\nexec >/dev/console 2>&1 # all of it\nexec 3< /dev/null\n";
    let loud_script = script.replacen("#!/bin/sh\n", told, 1);
    let hasty = format!("{told}exec 2>/dev/null /usr/bin/kata-agent\n");
    let hasty_script = script.replacen("#!/bin/sh\n", &hasty, 1);
    let plain_script = script.replace("export KATA_AGENT_POLICY_FILE=", "# ");
    let no_option = CONFIG.replace("CONFIG_OVERLAY_FS=y\n", "");
    let no_disk = CONFIG.replace("VIRTIO_BLK=m", "").replace("BLK_DEV_SD=y", "");
    let only_nvme = format!("{no_disk}CONFIG_BLK_DEV_NVME=y\n");
    let no_landlock = CONFIG.replace("landlock,", "");
    let no_loop = CONFIG.replace("CONFIG_BLK_DEV_LOOP=y\n", "");
    let unit = |name: &str| format!("{UNITS}/{name}");
    let (wall, processor) =
        (unit("initdata-read-only.service"), unit("initdata-processor.service"));
    let drop_in = |name: &str| format!("{UNITS}/kata-agent.service.d/{name}");
    let (order, policy) = (drop_in("50-configdev.conf"), drop_in("60-policy.conf"));
    let condition = format!("{processor}.d/x.conf");
    let loop_drop_in =
        fs::read_to_string(deploy().join("optional/accepted-disk-copy.conf")).unwrap();
    let owner_drop_in = fs::read_to_string(deploy().join("optional/owner.conf")).unwrap();
    let refresh = unit("initdata-processor-refresh@.service");
    let refresh_drop_in = format!("{refresh}.d/owner.conf");
    let agent_unit = unit("kata-agent.service");
    let relaxed = format!("{processor}.d/60-policy.conf");
    let measured = fs::read_to_string(deploy().join("optional/agent-config.conf")).unwrap();
    let own = drop_in("90-own.conf");
    let starts = |how: &str| format!("[Service]\nExecStart=\nExecStart={how}\n");
    let [direct, joined, file] = [
        "/usr/bin/kata-agent --config /run/measured-cfg/agent.toml",
        "/usr/bin/kata-agent --config=/etc/agent.toml",
        "/usr/bin/kata-agent -c /etc/agent.toml",
    ]
    .map(starts);
    let copy = Some("accepted-disk = \"copy\"");
    let front =
        [(FRONT_UNIT, Some(FRONT)), (FRONT_DROP_IN, Some(WANTS_FRONT)), (AGENT, Some(STOCK))];
    let with = |more: &[_]| [&front[..], more].concat();
    let with_hub = with(&[(HUB, Some("")), (ATTESTATION, Some(""))]);
    let with_attestation = with(&[(ATTESTATION, Some(""))]);
    let rows: &[Row<'_>] = &[
        (&[], "", 0, &[]),
        (&[(AGENT, None)], "", 65, &["error: /usr/bin/kata-agent: there is no agent"]),
        (&[("usr/bin/imagepuller", None)], "", 65, &["error: usr/bin/imagepuller: there is no"]),
        (
            &[(AGENT, Some("guest-services/imagepull.socket"))],
            "",
            65,
            &["knows no policies", "starts after a refusal; take 60-policy.conf"],
        ),
        (
            &[(AGENT, Some("guest-services/imagepull.socket")), (&policy, None)],
            "",
            0,
            &["knows no policies"],
        ),
        (&[(&policy, None)], "", 65, &["KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego is"]),
        (&[(&relaxed, None)], "", 0, &["the agent stays off and nobody tells the reason"]),
        (
            &[(&condition, Some("[Service]\nExecStart=\nExecStart=/usr/bin/initdata-processor\n"))],
            "",
            0,
            &["add --strict-exit=initdata"],
        ),
        (
            &[("etc/kata-opa/default-policy.rego", None)],
            "",
            0,
            &["warning: /etc/kata-opa/default-policy.rego: there is no such policy"],
        ),
        (
            &[(&order, Some("[Unit]\nWants=imagepuller.service\nAfter=imagepuller.service\n"))],
            "",
            65,
            &["Requires=initdata.target", "After=initdata.target", "initdata.refused"],
        ),
        (
            &[(&condition, Some("[Unit]\nConditionPathExists=/x\n"))],
            "",
            65,
            &["it has a Condition"],
        ),
        (&[(AGENT, Some(&looks))], "", 0, &[]),
        (&[(AGENT, Some(&looks)), (&wall, None)], "", 65, &["initdata-read-only.service: nothing"]),
        // It is needed where initdata was refused, whatever becomes of accepted disks.
        (
            &[
                (SETTINGS, copy),
                (AGENT, Some(&looks)),
                (ATTESTATION, Some("")),
                (&condition, Some(&loop_drop_in)),
                (&wall, None),
            ],
            "",
            65,
            &["initdata-read-only.service: nothing"],
        ),
        (&[(SETTINGS, Some("default-policy = 1"))], "", 65, &["initdata is refused: invalid type"]),
        (&[(SETTINGS, Some("owner = \"7:8\""))], "", 65, &["owner.conf"]),
        // The drop-in for one of the two units is not enough.
        (
            &[
                (SETTINGS, Some("owner = \"7:8\"")),
                (&condition, Some(&owner_drop_in)),
                (&refresh, Some("[Service]\nCapabilityBoundingSet=\n")),
            ],
            "",
            65,
            &["owner.conf, for initdata-processor-refresh@.service too"],
        ),
        (
            &[
                (SETTINGS, Some("owner = \"7:8\"")),
                (&condition, Some(&owner_drop_in)),
                (&refresh, Some("[Service]\nCapabilityBoundingSet=\n")),
                (&refresh_drop_in, Some(&owner_drop_in)),
            ],
            "",
            0,
            &[],
        ),
        (&[(SETTINGS, copy)], "", 65, &["this agent looks for no disk", "accepted-disk-copy.conf"]),
        (
            &[(SETTINGS, copy), (AGENT, Some(&looks)), (&condition, Some(&loop_drop_in))],
            "",
            65,
            &["error: accepted-disk: the agent believes any disk"],
        ),
        (
            &[
                (SETTINGS, copy),
                (AGENT, Some(&looks)),
                (ATTESTATION, Some("")),
                (&condition, Some(&loop_drop_in)),
                ("boot/config-6", Some(&no_loop)),
            ],
            "",
            65,
            &["CONFIG_BLK_DEV_LOOP: the kernel does not have it, nor its module loop"],
        ),
        (&[("boot/config-6", None)], "", 0, &["not checked; give --kernel-config"]),
        (&[("boot/config-6", Some(&no_option))], "", 65, &["CONFIG_OVERLAY_FS"]),
        (&[("boot/config-6", Some(&no_landlock))], "", 0, &["warning: CONFIG_LSM"]),
        (&[("lib/modules/6/modules.dep", None)], "", 0, &["warning: CONFIG_VIRTIO_BLK"]),
        // One way to a disk is enough, and half a way is none.
        (
            &[("boot/config-6", Some(&no_disk))],
            "",
            65,
            &[
                "warning: CONFIG_VIRTIO_BLK",
                "warning: CONFIG_BLK_DEV_SD",
                "error: disks: the kernel has none of VIRTIO_BLK, SCSI_VIRTIO with BLK_DEV_SD, \
                BLK_DEV_NVME: no disk is found",
            ],
        ),
        (
            &[("boot/config-6", Some(&only_nvme))],
            "",
            0,
            &["warning: CONFIG_VIRTIO_BLK", "warning: CONFIG_BLK_DEV_SD"],
        ),
        // Without systemd.
        (&[(&agent_unit, None)], "", 65, &["error: boot: there is neither"]),
        (&[(&agent_unit, None), ("init", Some(&script)), (AGENT, Some(&looks))], "", 0, &[]),
        (
            &[(&agent_unit, None), ("init", Some("#!/bin/sh\nexec kata-agent\n"))],
            "",
            65,
            &["does not run initdata-processor", "whether initdata was", "KATA_AGENT_POLICY_FILE"],
        ),
        // An exec that starts nothing was taken for the agent's start.
        (&[(&agent_unit, None), ("init", Some(&loud_script))], "", 0, &[]),
        (
            &[(&agent_unit, None), ("init", Some(&hasty_script))],
            "",
            65,
            &["does not run initdata-processor"],
        ),
        (
            &[(&agent_unit, None), ("init", Some(&plain_script))],
            "",
            65,
            &["KATA_AGENT_POLICY_FILE"],
        ),
        // The agent's configuration.
        (&[(&own, Some(&measured)), ("bin/sh", Some(""))], "", 0, &[]),
        (
            &[(&own, Some(&measured))],
            "",
            65,
            &["error: kata-agent.service: it starts /bin/sh, and there is no such program"],
        ),
        (
            &with(&[(&own, Some(&direct))]),
            "none",
            65,
            &["without /run/measured-cfg/agent.toml the agent ends"],
        ),
        (
            &with(&[(&own, Some(&joined))]),
            "none",
            65,
            &["ignores --config=/etc/agent.toml; write it as two words"],
        ),
        (
            &with(&[(&own, Some(&file))]),
            "none",
            65,
            &["error: /etc/agent.toml: there is no such configuration"],
        ),
        (
            &with(&[(&own, Some(&file)), ("etc/agent.toml", Some("debug_console"))]),
            "none",
            65,
            &["error: /etc/agent.toml: is not TOML"],
        ),
        // The kernel's parameter does not count then.
        (
            &with(&[(&own, Some(&file)), ("etc/agent.toml", Some("log_level = \"debug\"\n"))]),
            "none",
            65,
            &["say none or attestation-agent"],
        ),
        (
            &with(&[
                (&own, Some(&file)),
                ("etc/agent.toml", Some("guest_components_procs = \"none\"\n")),
            ]),
            "",
            0,
            &[],
        ),
        // The hub's socket.
        (&[(AGENT, Some(STOCK))], "none", 65, &["nobody listens there"]),
        (&front, "none", 0, &[]),
        (&front, "", 0, &["procs: not checked; give the guest's --kernel-parameters"]),
        (&front, "hub", 65, &["unknown value hub"]),
        (&front, "api-server-rest", 65, &["say none or attestation-agent"]),
        (&with_hub, "api-server-rest", 65, &["say none or attestation-agent"]),
        (&with_hub, "none", 0, &[]),
        (
            &with_attestation,
            "attestation-agent",
            0,
            &["warning: agent.guest_components_procs: the"],
        ),
        (
            &[(AGENT, Some(&stock)), (HUB, Some("")), (ATTESTATION, Some(""))],
            "confidential-data-hub",
            65,
            &["nobody listens there", "say none or attestation-agent"],
        ),
    ];
    for (number, (files, procs, code, words)) in rows.iter().enumerate() {
        let root = image();
        for (path, content) in *files {
            match content {
                Some(content) => put(&root, path, content),
                None => fs::remove_file(root.path().join(path)).unwrap(),
            }
        }
        let more = if procs.is_empty() { Vec::new() } else { parameter(procs) };
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let (found, text) = check(&root, &more);
        assert_eq!(found, *code, "row {number}: {text}");
        assert_eq!(text.lines().count(), words.len(), "row {number}: {text}");
        for (line, word) in text.lines().zip(*words) {
            assert!(line.contains(word), "row {number}: \"{word}\" is missing in: {line}");
        }
    }
}

/// Debian masks `hwclock.service` and others: each was an error in a root that has the node, so
/// that no image was written; and without the node the unit behind the mask counted.
#[test]
fn a_masked_unit_is_no_unit_and_one_of_ours_is_an_error() {
    let wants = |name: &str| format!("{UNITS}/multi-user.target.wants/{name}");
    let etc = |name: &str| format!("etc/systemd/system/{name}");
    let masked = |name: &str| format!("error: {name}: it is masked");
    let agent = "kata-agent.service";
    for (masks, words) in [
        (vec![etc("hwclock.service"), wants("hwclock.service")], vec![]),
        (vec![format!("{UNITS}/hwclock.service"), wants("hwclock.service")], vec![]),
        (vec![etc("initdata.target")], vec![masked("initdata.target")]),
        (vec![etc("imagepuller.service")], vec![masked("imagepuller.service")]),
        (vec![etc("initdata-read-only.service")], vec![masked("initdata-read-only.service")]),
        (vec![etc(agent)], vec![masked(agent)]),
        // A drop-in: that of the same name does not count.
        (
            vec![etc("kata-agent.service.d/60-policy.conf")],
            vec!["KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego is missing".to_owned()],
        ),
    ] {
        for has_node in [true, false] {
            let root = image();
            put(&root, "dev/x", "");
            if has_node {
                let (node, mode) = (root.path().join("dev/null"), Mode::RWXU);
                let null = rustix::fs::makedev(1, 3);
                // Without rights something else that is no regular file.
                mknodat(CWD, &node, FileType::CharacterDevice, mode, null)
                    .or_else(|_| mkfifoat(CWD, &node, mode))
                    .unwrap();
            }
            masks.iter().for_each(|path| mask(&root, path));
            let (code, text) = check(&root, &[]);
            assert_eq!(text.lines().count(), words.len(), "{masks:?}: {text}");
            assert_eq!(code, if words.is_empty() { 0 } else { 65 }, "{text}");
            for word in &words {
                assert!(text.contains(word), "{masks:?}: {text}");
            }
        }
    }
}

/// An agent that has no vsock ends at once, and one without a transport is reached by nobody.
#[test]
fn the_transport_of_vsock_is_there_and_loaded() {
    let none = CONFIG.replace("CONFIG_VIRTIO_VSOCKETS=y\n", "");
    let module = CONFIG.replace("VIRTIO_VSOCKETS=y", "VIRTIO_VSOCKETS=m");
    let list = "kernel/drivers/block/virtio_blk.ko.xz:\n\
        kernel/net/vmw_vsock/vmw_vsock_virtio_transport.ko.xz: kernel/net/vmw_vsock/vsock.ko.xz\n";
    let modprobe = ("usr/lib/systemd/system/modprobe@.service", "[Service]\n");
    let script = fs::read_to_string(deploy().join("init-example")).unwrap();
    let without = script.replace("vmw_vsock_virtio_transport", "");
    let agent_unit = format!("{UNITS}/kata-agent.service");
    let load = ("etc/modules-load.d/x.conf", "vmw_vsock_virtio_transport\n");
    let has_list = ("lib/modules/6/modules.dep", list);
    let config = |text: &'static str| ("boot/config-6", text);
    let (none, module) = (config(none.leak()), config(module.leak()));
    let missing = "nor its module vmw_vsock_virtio_transport: the agent ends";
    let nobody = "CONFIG_VIRTIO_VSOCKETS: it is a module, and nothing loads it";
    for (number, (files, is_script, word)) in [
        (vec![none], false, missing),
        (vec![module], false, missing),
        (vec![module, has_list, modprobe], false, ""),
        // The shipped drop-in asks for it, and there is no such unit.
        (vec![module, has_list], false, nobody),
        (vec![module, has_list, load], false, ""),
        (vec![module, has_list, ("lib/systemd/systemd-udevd", "")], false, ""),
        (vec![module, has_list, ("init", &script)], true, ""),
        (vec![module, has_list, ("init", &without)], true, nobody),
    ]
    .iter()
    .enumerate()
    {
        let root = image();
        files.iter().for_each(|(path, content)| put(&root, path, content));
        if *is_script {
            fs::remove_file(root.path().join(&agent_unit)).unwrap();
        }
        let (code, text) = check(&root, &[]);
        assert_eq!(code, if word.is_empty() { 0 } else { 65 }, "row {number}: {text}");
        assert_eq!(text.lines().count(), usize::from(!word.is_empty()), "row {number}: {text}");
        assert!(text.contains(word), "row {number}: {text}");
    }
}

#[test]
fn a_hostile_image_is_not_left_and_hangs_nobody() {
    let outside = tempfile::tempdir().unwrap();
    put(&outside, "agent", POLICIES);
    let root = image();
    let replace = |path: &str| {
        let path = root.path().join(path);
        fs::remove_file(&path).unwrap();
        path
    };
    // A link out of the image is one into it.
    symlink(outside.path().join("agent"), replace(AGENT)).unwrap();
    mkfifoat(CWD, replace("etc/kata-opa/default-policy.rego"), Mode::RWXU).unwrap();
    symlink("config-6", replace("boot/config-6")).unwrap();
    symlink("../../../../../../../../etc", root.path().join("etc/systemd")).unwrap();
    fs::write(root.path().join(SETTINGS), vec![b'#'; 5 << 20]).unwrap();
    assert!(check(&root, &[]).1.contains("error: /usr/bin/kata-agent: there is no agent"));
    put(&root, "agent", POLICIES);
    let (code, text) = check(&root, &["--json", "--agent", "agent"]);
    assert_eq!(code, 65);
    let findings: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (subject, word) in [
        ("/etc/kata-opa/default-policy.rego", "not a regular file"),
        (SETTINGS, "more than 4194304 bytes"),
        ("boot/config-6", "symbolic link"),
    ] {
        let one = findings.iter().find(|finding| finding["subject"] == subject);
        let one = one.unwrap_or_else(|| panic!("{subject}: {text}"));
        assert!(one["text"].as_str().unwrap().contains(word), "{one}");
    }
    let missing = ["--kernel-config", "/nowhere", "--agent", "agent"];
    let (code, text) = check(&root, &missing);
    assert_eq!(code, 66);
    assert!(text.contains("the image: /nowhere: No such file"), "{text}");
    assert_eq!(check(&root, &["--x"]).0, 64);
}
