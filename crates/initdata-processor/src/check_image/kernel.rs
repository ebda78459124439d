//! The kernel's options, and the modules of those that are not built in.

use std::collections::BTreeMap;
use std::io;

use super::boot::{Boot, code};
use super::{Check, Level, MAX_TEXT_BYTES, outside};
use crate::kernel_parameter::ALLOW_UNVERIFIED;
use crate::settings::AcceptedDisk;

/// An option, the module that it can be instead, and what does not work without.
type Row = (&'static str, Option<&'static str>, Level, &'static str);

const OPTIONS: &[Row] = &[
    ("DEVTMPFS", None, Level::Error, "no disk is found"),
    ("TMPFS", None, Level::Error, "there is no place for results"),
    ("UNIX", None, Level::Error, "nobody can ask for an image"),
    ("SECCOMP_FILTER", None, Level::Error, "initdata is refused"),
    ("VIRTIO_PCI", Some("virtio_pci"), Level::Error, "no virtio disk is found"),
    ("OVERLAY_FS", Some("overlay"), Level::Error, "no image can be mounted"),
    (
        VSOCK,
        Some(VSOCK_MODULE),
        Level::Error,
        "the agent ends, because it cannot listen on vsock, or the host does not reach it",
    ),
    ("VIRTIO_BLK", Some("virtio_blk"), Level::Warning, "no virtio-blk disk is found"),
    ("SCSI_VIRTIO", Some("virtio_scsi"), Level::Warning, "no disk of Kata's Rust runtime is found"),
    ("BLK_DEV_SD", Some("sd_mod"), Level::Warning, "no disk of Kata's Rust runtime is found"),
    ("TMPFS_XATTR", None, Level::Warning, "files of images lose their attributes"),
    ("SECURITY_LANDLOCK", None, Level::Warning, "the programs are less confined"),
];

/// What the agent listens on.
const VSOCK: &str = "VIRTIO_VSOCKETS";
const VSOCK_MODULE: &str = "vmw_vsock_virtio_transport";

/// The ways to a disk, of which one has to be there: options, and their modules.
const WAYS: [&[(&str, &str)]; 3] = [
    &[("VIRTIO_BLK", "virtio_blk")],
    &[("SCSI_VIRTIO", "virtio_scsi"), ("BLK_DEV_SD", "sd_mod")],
    &[("BLK_DEV_NVME", "nvme")],
];

/// For `accepted-disk = "copy"`.
const LOOP: Row = ("BLK_DEV_LOOP", Some("loop"), Level::Error, "initdata is refused");

/// One of these is needed for evidence.
const EVIDENCE: [(&str, &str); 3] =
    [("SEV_GUEST", "sev-guest"), ("TDX_GUEST_DRIVER", "tdx-guest"), ("TSM_REPORTS", "tsm")];

impl Check<'_> {
    pub fn kernel(&mut self, boot: &Boot) -> io::Result<()> {
        if self.parameter(ALLOW_UNVERIFIED).is_some() {
            self.warn(
                ALLOW_UNVERIFIED,
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
        let has = |option: &str, module: Option<&str>| match (options.get(option), module) {
            (Some(&"y"), _) => true,
            (Some(&"m"), Some(module)) => modules.contains(&format!("/{module}.ko")),
            _ => false,
        };
        let copy = self.settings.accepted_disk == AcceptedDisk::Copy;
        let rows = OPTIONS.iter().chain(copy.then_some(&LOOP));
        for (option, module, level, without) in rows {
            if !has(option, *module) {
                let or = module.map_or(String::new(), |name| format!(", nor its module {name}"));
                let text = format!("the kernel does not have it{or}: {without}");
                self.find(*level, format!("CONFIG_{option}"), text);
            }
        }
        let is_module = options.get(VSOCK) == Some(&"m") && has(VSOCK, Some(VSOCK_MODULE));
        if is_module && !self.loads(VSOCK_MODULE, boot) {
            let text = "it is a module, and nothing loads it: the host does not reach the agent; \
                        see deploy/guest/systemd/kata-agent.service.d/50-configdev.conf";
            self.error(format!("CONFIG_{VSOCK}"), text);
        }
        let is_whole = |way: &&[(&str, &str)]| {
            let mut parts = way.iter();
            parts.all(|(option, module)| has(option, Some(module)))
        };
        if !WAYS.iter().any(is_whole) {
            let all = WAYS.map(|way| {
                let names: Vec<&str> = way.iter().map(|(option, _)| *option).collect();
                names.join(" with ")
            });
            self.error(
                "disks",
                format!("the kernel has none of {}: no disk is found", all.join(", ")),
            );
        }
        if !EVIDENCE.iter().any(|(option, module)| has(option, Some(module))) {
            let all = EVIDENCE.map(|(option, _)| option).join(", ");
            self.warn("evidence", format!("the kernel has none of {all}: no TEE is recognised"));
        }
        let list = self.parameter("lsm=").or(options.get("LSM").copied());
        let enabled =
            list.is_some_and(|list| list.trim_matches('"').split(',').any(|lsm| lsm == "landlock"));
        if has("SECURITY_LANDLOCK", None) && !enabled {
            self.warn(
                "CONFIG_LSM",
                "Landlock is built in and not enabled; add landlock to it or to lsm=",
            );
        }
        Ok(())
    }

    /// Whether something in the image loads a module: a unit, a list, udev, or the first program.
    fn loads(&mut self, module: &str, boot: &Boot) -> bool {
        let by_boot = match boot {
            Boot::Units(units) => units.contains_key(&format!("modprobe@{module}.service")),
            Boot::Script(text) => code(text).any(|line| line.contains(module)),
            // Who starts what is an error of its own.
            Boot::Unknown => true,
        };
        let mut folders = ["etc", "usr/lib", "lib"].iter();
        by_boot
            || self.tree.is_program("lib/systemd/systemd-udevd")
            || self.tree.is_program("usr/lib/systemd/systemd-udevd")
            || folders.any(|folder| {
                let folder = format!("{folder}/modules-load.d");
                let names = self.tree.names(&folder);
                let mut lists = names.iter().map(|name| format!("{folder}/{name}"));
                lists.any(|path| {
                    let text = self.tree.text(&path, MAX_TEXT_BYTES).ok().flatten();
                    let text = String::from_utf8_lossy(text.as_deref().map_or(&[], |text| text))
                        .replace('-', "_");
                    text.lines().any(|line| line.trim() == module)
                })
            })
    }

    /// The configuration in the image, where there is one and only one.
    fn own_config(&mut self) -> Option<String> {
        let mut found = self.tree.names("boot");
        found.retain(|name| name.starts_with("config-"));
        if let [name] = found.as_slice() {
            return self.text(&format!("boot/{name}"));
        }
        self.warn("kernel", "its options are not checked; give --kernel-config FILE");
        None
    }

    /// The modules in the image, as depmod lists them.
    fn modules(&mut self) -> String {
        let folder = "lib/modules";
        let lists: Vec<String> = self
            .tree
            .names(folder)
            .into_iter()
            .filter_map(|release| self.text(&format!("{folder}/{release}/modules.dep")))
            .collect();
        // `a/b.ko.xz: c/d.ko.xz`, and what lies right in the folder.
        lists.iter().flat_map(|list| list.lines()).map(|line| format!("/{line}\n")).collect()
    }
}
