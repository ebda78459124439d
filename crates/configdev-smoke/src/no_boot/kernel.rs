//! The kernel's options, and the modules of those that are not built in.

use std::collections::BTreeMap;
use std::io;

use initdata_processor::settings::AcceptedDisk;
use problem::Severity::{self, Error, Warning};

use super::boot::code;
use super::{Check, outside};
use crate::agent::TRANSPORT;
use crate::machine::UNVERIFIED;

const ID: &str = "image-kernel";

/// An option, the module that it can be instead, and what does not work without.
type Row = (&'static str, Option<&'static str>, Severity, &'static str);

const OPTIONS: [Row; 12] = [
    ("DEVTMPFS", None, Error, "no disk is found"),
    ("TMPFS", None, Error, "there is no place for results"),
    ("UNIX", None, Error, "nobody can ask for an image"),
    ("SECCOMP_FILTER", None, Error, "initdata is refused"),
    ("VIRTIO_PCI", Some("virtio_pci"), Error, "no virtio disk is found"),
    ("OVERLAY_FS", Some("overlay"), Error, "no image can be mounted"),
    (
        VSOCK,
        Some(TRANSPORT),
        Error,
        "the agent ends, because it cannot listen on vsock, or the host does not reach it",
    ),
    ("VIRTIO_BLK", Some("virtio_blk"), Warning, "no virtio-blk disk is found"),
    ("SCSI_VIRTIO", Some("virtio_scsi"), Warning, "no disk of Kata's Rust runtime is found"),
    ("BLK_DEV_SD", Some("sd_mod"), Warning, "no disk of Kata's Rust runtime is found"),
    ("TMPFS_XATTR", None, Warning, "files of images lose their attributes"),
    ("SECURITY_LANDLOCK", None, Warning, "the programs are less confined"),
];

/// What the agent listens on.
const VSOCK: &str = "VIRTIO_VSOCKETS";

/// The ways to a disk, of which one has to be there: options, and their modules.
const WAYS: [&[(&str, &str)]; 3] = [
    &[("VIRTIO_BLK", "virtio_blk")],
    &[("SCSI_VIRTIO", "virtio_scsi"), ("BLK_DEV_SD", "sd_mod")],
    &[("BLK_DEV_NVME", "nvme")],
];

/// For `accepted-disk = "copy"`.
const LOOP: Row = ("BLK_DEV_LOOP", Some("loop"), Error, "initdata is refused");

/// One of these is needed for evidence.
const EVIDENCE: [(&str, &str); 3] =
    [("SEV_GUEST", "sev-guest"), ("TDX_GUEST_DRIVER", "tdx-guest"), ("TSM_REPORTS", "tsm")];

impl Check<'_> {
    pub fn kernel(&self) -> io::Result<()> {
        if self.parameter(UNVERIFIED).is_some() {
            self.warn(
                ID,
                UNVERIFIED,
                "a guest without a TEE accepts any initdata; this has no effect in another",
            );
        }
        let text = match &self.options.kernel_config {
            Some(path) => Some(outside(path)?),
            None => self.own_config(),
        };
        let Some(text) = text else {
            return Ok(());
        };
        let lines = text.lines().filter_map(|line| line.strip_prefix("CONFIG_"));
        let options: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once('=')).collect();
        let modules = self.modules();
        let has = |option: &str, module: Option<&str>| match options.get(option) {
            Some(&"y") => true,
            Some(&"m") => module.is_some_and(|name| modules.contains(&format!("/{name}.ko"))),
            _ => false,
        };
        let copy = self.settings.accepted_disk == AcceptedDisk::Copy;
        for (option, module, severity, without) in OPTIONS.iter().chain(copy.then_some(&LOOP)) {
            if !has(option, *module) {
                let or = module.map_or(String::new(), |name| format!(", nor its module {name}"));
                let text = format!("the kernel does not have it{or}: {without}");
                self.find(*severity, ID, format!("CONFIG_{option}"), text);
            }
        }
        let is_module = options.get(VSOCK) == Some(&"m") && has(VSOCK, Some(TRANSPORT));
        if is_module && !self.loads(TRANSPORT) {
            let text = "it is a module, and nothing loads it: the host does not reach the agent; \
                        see deploy/guest/systemd/kata-agent.service.d/50-configdev.conf";
            self.error(ID, format!("CONFIG_{VSOCK}"), text);
        }
        let has_all =
            |way: &&[(&str, &str)]| way.iter().all(|(name, module)| has(name, Some(module)));
        if !WAYS.iter().any(has_all) {
            let all = WAYS.map(|way| way.iter().map(|(name, _)| *name).collect::<Vec<_>>());
            let all = all.map(|way| way.join(" with ")).join(", ");
            self.error(ID, "disks", format!("the kernel has none of {all}: no disk is found"));
        }
        if !EVIDENCE.iter().any(|(option, module)| has(option, Some(module))) {
            let all = EVIDENCE.map(|(option, _)| option).join(", ");
            let text = format!("the kernel has none of {all}: no TEE is recognised");
            self.warn(ID, "evidence", text);
        }
        let list = self.parameter("lsm=").or(options.get("LSM").copied()).unwrap_or_default();
        let mut enabled = list.trim_matches('"').split(',');
        if has("SECURITY_LANDLOCK", None) && !enabled.any(|lsm| lsm == "landlock") {
            let text = "Landlock is built in and not enabled; add landlock to it or to lsm=";
            self.warn(ID, "CONFIG_LSM", text);
        }
        Ok(())
    }

    /// Whether something in the image loads a module: a unit, a list, udev, or the first program.
    fn loads(&self, module: &str) -> bool {
        let by_boot = match &self.script {
            Some(text) => code(text).any(|line| line.contains(module)),
            // Who starts what is an error of its own where that is not known.
            None => {
                self.units.is_empty()
                    || self.units.contains_key(&format!("modprobe@{module}.service"))
            }
        };
        by_boot
            || self.tree.is_program("lib/systemd/systemd-udevd")
            || self.tree.is_program("usr/lib/systemd/systemd-udevd")
            || ["etc", "usr/lib", "lib"].iter().any(|folder| {
                let folder = format!("{folder}/modules-load.d");
                self.tree.names(&folder).iter().any(|name| {
                    let list = self.text(&format!("{folder}/{name}")).unwrap_or_default();
                    list.replace('-', "_").lines().any(|line| line.trim() == module)
                })
            })
    }

    /// The configuration in the image, where there is one and only one.
    fn own_config(&self) -> Option<String> {
        let mut found = self.tree.names("boot");
        found.retain(|name| name.starts_with("config-"));
        if let [name] = found.as_slice() {
            return self.text(&format!("boot/{name}"));
        }
        self.warn(ID, "kernel", "its options are not checked; give --kernel-config FILE");
        None
    }

    /// The modules in the image, as depmod lists them.
    fn modules(&self) -> String {
        let releases = self.tree.names("lib/modules").into_iter();
        let lists =
            releases.filter_map(|release| self.text(&format!("lib/modules/{release}/modules.dep")));
        // `a/b.ko.xz: c/d.ko.xz`, and what lies right in the folder.
        lists.map(|list| format!("/{}", list.replace('\n', "\n/"))).collect()
    }
}
