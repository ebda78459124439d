//! A command line of one of Kata's runtimes, made to run without KVM.
//!
//! What a machine without KVM, vhost and tap cannot do is replaced here, line by line, and what a
//! caller varies; nothing else: order and spelling stay the runtime's. The test guests start with
//! [`DEFAULT_VECTOR`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::vector::Vector;

/// The recording of a plain x86-64 guest with initdata.
pub const DEFAULT_VECTOR: &str = "go-coco-dev-extension";

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
    pub(crate) fn back_end(self) -> String {
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
    pub cpu: String,
    /// The guest's memory, in MiB.
    pub memory_mib: u32,
    /// Guest initramfs.
    pub initrd: PathBuf,
    /// The disk in the place of Kata's images, which these guests do not use.
    pub root_image: PathBuf,
    /// The initdata image, attached as Kata does; none without the annotation.
    pub initdata: Option<PathBuf>,
    /// Further raw disks, read-only, before initdata.
    pub disks: Vec<PathBuf>,
    /// What the guest can reach: a back end of QEMU's, with the id `network-0`.
    pub network: String,
    /// More kernel parameters.
    pub kernel_parameters: Vec<String>,
    /// The directory for sockets and the pidfile.
    pub run: PathBuf,
}

/// Everything after the program's name, as `vector` has it.
///
/// # Errors
///
/// Where the recording has not the form that this module knows.
pub fn arguments(vector: &Vector, sandbox: &Sandbox) -> Result<Vec<OsString>> {
    let id = vector.sandbox()?;
    let memory = vector.values("-m").next().and_then(|m| m.split(',').next());
    let edit = Edit { sandbox, memory: memory.unwrap_or_default(), is_go: vector.is_go() };
    let run = sandbox.run.display().to_string();
    let mut list = Arguments(Vec::new());
    let mut rest = vector.arguments.iter().peekable();
    while let Some(option) = rest.next() {
        let value = rest.next_if(|next| !next.starts_with('-'));
        let value = value.map(|value| {
            value
                .replace(&format!("/run/vc/vm/{id}"), &run)
                .replace(&format!("/run/kata/{id}/root"), &run)
                .replace(id, &sandbox.id)
        });
        match value {
            Some(value) => edit.pair(option, &value, &mut list),
            None => list.flag(option),
        }
    }
    if vector.values("-netdev").next().is_none() {
        // As runtime-rs has it where there is an interface.
        edit.pair("-netdev", "", &mut list);
        let card = "virtio-net-pci,netdev=network-0,disable-modern=false,romfile=";
        list.pair("-device", card);
    }
    Ok(list.0)
}

/// What becomes of the recorded options.
struct Edit<'a> {
    sandbox: &'a Sandbox,
    /// The memory that the vector gives, such as `2048M`.
    memory: &'a str,
    is_go: bool,
}

impl Edit<'_> {
    /// Adds `option value`, or what stands for it on a machine without KVM.
    fn pair(&self, option: &str, value: &str, list: &mut Arguments) {
        let sandbox = self.sandbox;
        let is = |start: &str| value.starts_with(start);
        match option {
            "-machine" => {
                let value = value.replace("accel=kvm", "accel=tcg");
                list.pair(option, value.replace(",kernel_irqchip=on", ""));
            }
            "-cpu" => list.pair(option, value.replace("host", &sandbox.cpu)),
            "-m" | "-object" if !self.memory.is_empty() => {
                let memory = format!("{}M", sandbox.memory_mib);
                list.pair(option, value.replace(self.memory, &memory));
            }
            "-smp" => list.pair(option, "2,cores=1,threads=1,sockets=2,maxcpus=2"),
            "-chardev" => {
                let log = sandbox.run.join("console.log");
                list.pair(option, format!("{value},logfile={}", log.display()));
            }
            // The initdata disk of runtime-rs, whose descriptor the caller hands over.
            "-add-fd" | "-blockdev" if sandbox.initdata.is_none() => {}
            "-drive" if is("id=initdata") => {
                if let Some(image) = &sandbox.initdata {
                    list.pair(option, with_file(value, image));
                }
            }
            // The root image and the extension's, which these guests do not use.
            "-drive" => list.pair(option, with_file(value, &sandbox.root_image)),
            "-netdev" => list.pair(option, sandbox.network.as_str()),
            "-device" => self.device(value, list),
            "-kernel" => {
                list.pair(option, sandbox.kernel.as_os_str());
                list.pair("-initrd", sandbox.initrd.as_os_str());
            }
            "-initrd" => {}
            "-append" => list.pair(option, self.kernel_line(value)),
            _ => list.pair(option, value),
        }
    }

    fn device(&self, value: &str, list: &mut Arguments) {
        let option = "-device";
        let is = |start: &str| value.starts_with(start);
        let is_initdata =
            value.contains("drive=initdata") || (!self.is_go && value.contains("drive=image-"));
        match () {
            // As with Kata's own `use_legacy_serial`: the kernel speaks before the driver of hvc0
            // is loaded.
            () if is("virtconsole") => list.pair("-serial", "chardev:charconsole0"),
            // vsock and tap want vhost.
            () if is("vhost-vsock-pci") => {}
            () if is("driver=virtio-net-pci") => {
                let single = value.replace("mq=on,vectors=4", "mq=off");
                list.pair(option, format!("{single},romfile="));
            }
            () if is("virtio-scsi-pci") => {
                // The recorded node was a VM; a machine of metal has no legacy device.
                list.pair(option, value.replace("disable-modern=true", "disable-modern=false"));
                disks(self.sandbox, list);
            }
            () if is_initdata && self.sandbox.initdata.is_none() => {}
            () => list.pair(option, value),
        }
    }

    fn kernel_line(&self, value: &str) -> String {
        let mut line = value
            .replace("console=hvc0 console=hvc1", "console=ttyS0")
            .replace("console=hvc0", "console=ttyS0")
            .replace("nr_cpus=1", "nr_cpus=2")
            // The agent scans when it wants a disk; there is no agent here.
            .replace(" scsi_mod.scan=none", "");
        // Without KVM the kernel measures the processor's counter against a timer. Where this
        // machine is busy at that moment, the guest's clock goes tens of times too fast, and every
        // deadline in the guest passes at once.
        line.push_str(" clocksource=acpi_pm");
        for parameter in &self.sandbox.kernel_parameters {
            line.push(' ');
            line.push_str(parameter);
        }
        line
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
