//! The kernel's options, and the modules of those that are not built in.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use foreign_text::bounded::read_path;
use initdata_processor::settings::AcceptedDisk;
use problem::Severity::{self, Error, Warning};

use super::boot::code;
use super::{Check, MAX_TEXT_BYTES};
use crate::agent::TRANSPORT;
use crate::machine::UNVERIFIED;

/// What is needed, in any of several ways, and what does not work without: options, each with the
/// module that it can be instead.
type Row = (Severity, &'static str, &'static str);

const OPTIONS: [Row; 13] = [
    (Error, "DEVTMPFS", "no disk is found"),
    (Error, "TMPFS", "there is no place for results"),
    (Error, "UNIX", "nobody can ask for an image"),
    (Error, "SECCOMP_FILTER", "initdata is refused"),
    (Error, "VIRTIO_PCI (module virtio_pci)", "no virtio disk is found"),
    (Error, "OVERLAY_FS (module overlay)", "no image can be mounted"),
    (
        Error,
        VSOCK,
        "the agent ends, because it cannot listen on vsock, or the host does not reach it",
    ),
    (Warning, "VIRTIO_BLK (module virtio_blk)", "no virtio-blk disk is found"),
    (
        Warning,
        "SCSI_VIRTIO (module virtio_scsi) and BLK_DEV_SD (module sd_mod)",
        "no disk of Kata's Rust runtime is found",
    ),
    (
        Error,
        "VIRTIO_BLK (module virtio_blk) or SCSI_VIRTIO (module virtio_scsi) and BLK_DEV_SD (module \
         sd_mod) or BLK_DEV_NVME (module nvme)",
        "no disk is found",
    ),
    (Warning, "TMPFS_XATTR", "files of images lose their attributes"),
    (Warning, "SECURITY_LANDLOCK", "the programs are less confined"),
    (
        Warning,
        "SEV_GUEST (module sev-guest) or TDX_GUEST_DRIVER (module tdx-guest) or TSM_REPORTS \
         (module tsm)",
        "no TEE is recognised",
    ),
];

/// What the agent listens on.
const VSOCK: &str = "VIRTIO_VSOCKETS (module vmw_vsock_virtio_transport)";

/// For `accepted-disk = "copy"`.
const LOOP: Row = (Error, "BLK_DEV_LOOP (module loop)", "initdata is refused");

const PLACE: &str = "kernel";

impl Check<'_> {
    pub fn kernel(&self) -> Result<()> {
        if self.parameter(UNVERIFIED).is_some() {
            let text = "a guest without a TEE accepts any initdata; this has no effect in another";
            self.warn(UNVERIFIED, text);
        }
        let text = match &self.options.kernel_config {
            Some(path) => {
                let text = read_path(path, MAX_TEXT_BYTES);
                let text = text.with_context(|| path.display().to_string())?;
                Some(String::from_utf8_lossy(&text).into_owned())
            }
            None => self.own_config(),
        };
        let Some(text) = text else {
            return Ok(());
        };
        let lines = text.lines().filter_map(|line| line.strip_prefix("CONFIG_"));
        let options: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once('=')).collect();
        let modules = self.modules();
        let has = |option: &str| {
            let (name, module) = option.split_once(" (module ").unwrap_or((option, ")"));
            let file = format!("/{}.ko", module.trim_end_matches(')'));
            match options.get(name) {
                Some(&"m") => modules.contains(&file),
                value => value == Some(&"y"),
            }
        };
        let copy = self.settings.accepted_disk == AcceptedDisk::Copy;
        for (severity, needed, without) in OPTIONS.iter().chain(copy.then_some(&LOOP)) {
            if !needed.split(" or ").any(|way| way.split(" and ").all(has)) {
                self.find(*severity, PLACE, format!("it does not have {needed}: {without}"));
            }
        }
        let is_module = options.get("VIRTIO_VSOCKETS") == Some(&"m") && has(VSOCK);
        if is_module && !self.loads(TRANSPORT) {
            let text = format!(
                "{TRANSPORT} is a module, and nothing loads it: the host does not reach the \
                 agent; see deploy/guest/systemd/kata-agent.service.d/50-configdev.conf"
            );
            self.error(PLACE, text);
        }
        Ok(())
    }

    /// Whether something in the image loads a module: the first program, a unit, udev, or a list.
    fn loads(&self, module: &str) -> bool {
        let unit = format!("modprobe@{module}.service");
        let is_listed = |folder: &str| {
            self.tree.names(folder).iter().any(|name| {
                let list = self.text(&format!("{folder}/{name}")).unwrap_or_default();
                list.replace('-', "_").lines().any(|line| line.trim() == module)
            })
        };
        // Who starts what is an error of its own where that is not known.
        let by_boot = match &self.script {
            Some(text) => code(text).any(|line| line.contains(module)),
            None => self.units.is_empty() || self.units.values().any(|u| u.says("Wants", &unit)),
        };
        by_boot
            || self.tree.is_program("lib/systemd/systemd-udevd")
            || self.tree.is_program("usr/lib/systemd/systemd-udevd")
            || ["etc/modules-load.d", "usr/lib/modules-load.d", "lib/modules-load.d"]
                .into_iter()
                .any(is_listed)
    }

    /// The configuration in the image, where there is one and only one.
    fn own_config(&self) -> Option<String> {
        let mut found = self.tree.names("boot");
        found.retain(|name| name.starts_with("config-"));
        if let [name] = found.as_slice() {
            return self.text(&format!("boot/{name}"));
        }
        self.warn(PLACE, "its options are not checked; give --kernel-config FILE");
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
