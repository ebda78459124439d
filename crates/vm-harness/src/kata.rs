//! A command line of Kata's Go runtime, made to run without KVM.
//!
//! `go-coco-dev-extension` is the recorded vector of a plain x86-64 guest with initdata. What a
//! machine without KVM, vhost and tap cannot do is replaced here, line by line, and what a test
//! varies; nothing else: order and spelling stay the runtime's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::vector::Vector;

/// Where a guest with [`Network::ProxyOnly`] finds the proxy.
pub const PROXY_ADDRESS: &str = "10.0.2.100:3128";

/// What a guest can reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// This machine as 10.0.2.2, and what this machine can reach.
    #[default]
    Open,
    /// This port of 127.0.0.1 as [`PROXY_ADDRESS`] and nothing else: no other address, no port of
    /// this machine, no DNS.
    ProxyOnly(u16),
}

impl Network {
    /// QEMU's own network stack, which needs no rights.
    fn back_end(self) -> String {
        match self {
            Self::Open => "user,id=network-0".to_owned(),
            // A process for each connection: `-tcp:` instead of `-cmd:` forwards only one.
            Self::ProxyOnly(port) => format!(
                "user,id=network-0,restrict=on,guestfwd=tcp:{PROXY_ADDRESS}-cmd:busybox nc \
                127.0.0.1 {port}"
            ),
        }
    }
}

/// What varies from sandbox to sandbox.
#[derive(Debug)]
pub struct Sandbox {
    /// The sandbox's id.
    pub id: String,
    /// Guest kernel.
    pub kernel: PathBuf,
    /// The processor that this kernel runs on without KVM.
    pub cpu: &'static str,
    /// Guest initramfs.
    pub initrd: PathBuf,
    /// The disk in the place of Kata's images, which these guests do not use.
    pub root_image: PathBuf,
    /// The initdata image, attached as Kata does; none without the annotation.
    pub initdata: Option<PathBuf>,
    /// Further raw disks, read-only, before initdata.
    pub disks: Vec<PathBuf>,
    /// What the guest can reach.
    pub network: Network,
    /// More kernel parameters.
    pub kernel_parameters: Vec<String>,
    /// The directory for sockets and the pidfile.
    pub run: PathBuf,
}

/// Everything after the program's name.
///
/// # Errors
///
/// Where the recording cannot be read or has not the form that this module knows.
pub fn arguments(sandbox: &Sandbox) -> Result<Vec<OsString>> {
    let vector = Vector::read("go-coco-dev-extension")?;
    let id = vector.sandbox()?;
    let mut list = Arguments(Vec::new());
    let mut rest = vector.arguments.iter().peekable();
    while let Some(option) = rest.next() {
        let value = rest.next_if(|next| !next.starts_with('-'));
        let value = value.map(|value| {
            value
                .replace(
                    &format!("/run/vc/vm/{id}"),
                    &sandbox.run.display().to_string(),
                )
                .replace(id, &sandbox.id)
        });
        match value {
            Some(value) => adapted(sandbox, option, &value, &mut list),
            None => list.flag(option),
        }
    }
    Ok(list.0)
}

/// Adds `option value`, or what stands for it on a machine without KVM.
fn adapted(sandbox: &Sandbox, option: &str, value: &str, list: &mut Arguments) {
    let is = |start: &str| value.starts_with(start);
    match option {
        "-machine" => list.pair(option, value.replace("accel=kvm", "accel=tcg")),
        "-cpu" => list.pair(option, value.replace("host", sandbox.cpu)),
        "-m" => list.pair(option, value.replace("2048M", "512M")),
        "-object" => list.pair(option, value.replace("2048M", "512M")),
        "-smp" => list.pair(option, "2,cores=1,threads=1,sockets=2,maxcpus=2"),
        // As with Kata's own `use_legacy_serial`: the kernel speaks before the driver of hvc0 is
        // loaded.
        "-device" if is("virtconsole") => list.pair("-serial", "chardev:charconsole0"),
        "-chardev" => {
            let log = sandbox.run.join("console.log");
            list.pair(option, format!("{value},logfile={}", log.display()));
        }
        "-drive" if is("id=initdata") => {
            if let Some(image) = &sandbox.initdata {
                list.pair(option, with_file(value, image));
            }
        }
        // The root image and the extension's, which these guests do not use.
        "-drive" => list.pair(option, with_file(value, &sandbox.root_image)),
        // vsock and tap want vhost.
        "-device" if is("vhost-vsock-pci") => {}
        "-netdev" => list.pair(option, sandbox.network.back_end()),
        "-device" if is("driver=virtio-net-pci") => {
            let single = value.replace("mq=on,vectors=4", "mq=off");
            list.pair(option, format!("{single},romfile="));
        }
        "-device" if is("virtio-scsi-pci") => {
            list.pair(option, value);
            disks(sandbox, list);
        }
        "-device" if value.contains("drive=initdata") && sandbox.initdata.is_none() => {}
        "-kernel" => {
            list.pair(option, sandbox.kernel.as_os_str());
            list.pair("-initrd", sandbox.initrd.as_os_str());
        }
        "-append" => {
            let mut line = value
                .replace("console=hvc0 console=hvc1", "console=ttyS0")
                .replace("nr_cpus=1", "nr_cpus=2")
                // The agent scans when it wants a disk; there is no agent here.
                .replace(" scsi_mod.scan=none", "");
            // Without KVM the kernel measures the processor's counter against a timer. Where this
            // machine is busy at that moment, the guest's clock goes tens of times too fast, and
            // every deadline in the guest passes at once.
            line.push_str(" clocksource=acpi_pm");
            for parameter in &sandbox.kernel_parameters {
                line.push(' ');
                line.push_str(parameter);
            }
            list.pair(option, line);
        }
        _ => list.pair(option, value),
    }
}

/// The test's own disks, behind the SCSI controller and before initdata.
fn disks(sandbox: &Sandbox, list: &mut Arguments) {
    for (number, disk) in sandbox.disks.iter().enumerate() {
        let id = format!("disk{number}");
        let file = disk.display();
        list.pair(
            "-drive",
            format!("id={id},file={file},aio=threads,format=raw,if=none,readonly=on"),
        );
        // A little of everything a guest may see: virtio-blk, SCSI, NVMe.
        list.pair(
            "-device",
            match number % 3 {
                0 => format!("virtio-blk-pci,disable-modern=false,drive={id},config-wce=off,share-rw=on,serial={id}"),
                1 => format!("scsi-hd,drive={id},bus=scsi0.0"),
                _ => format!("nvme,drive={id},serial={id}"),
            },
        );
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn pair(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }

    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }
}

/// The drive `value` with `image` in the place of its file.
fn with_file(value: &str, image: &Path) -> String {
    let words = value.split(',').map(|word| match word.split_once('=') {
        Some(("file", _)) => format!("file={}", image.display()),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(",")
}
