//! The command line that Kata's Go runtime generates for QEMU.
//!
//! Order and spelling follow Kata 4.1 for a plain x86-64 guest with an initdata annotation, less what needs KVM, a tap
//! device or vhost: `accel=tcg`, `-cpu max`, a user-mode network, no vsock.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What varies from sandbox to sandbox.
#[derive(Debug)]
pub struct Sandbox {
    /// The sandbox's id.
    pub id: String,
    /// Guest kernel.
    pub kernel: PathBuf,
    /// Guest initramfs.
    pub initrd: PathBuf,
    /// The initdata image, attached as Kata does; none without the annotation.
    pub initdata: Option<PathBuf>,
    /// Further raw disks, read-only, before initdata.
    pub disks: Vec<PathBuf>,
    /// More kernel parameters.
    pub kernel_parameters: Vec<String>,
    /// The directory for sockets and the pidfile.
    pub run: PathBuf,
}

/// Everything after the program's name.
#[must_use]
pub fn arguments(sandbox: &Sandbox) -> Vec<OsString> {
    let run = |name: &str| sandbox.run.join(name).display().to_string();
    let mut list = Arguments(Vec::new());
    list.pair("-name", format!("sandbox-{},debug-threads=on", sandbox.id));
    list.pair("-uuid", "4b5a0f5b-6f31-4f2a-9a4b-6f3b1e1d7a10");
    list.pair("-machine", "q35,accel=tcg");
    list.pair("-cpu", "max,pmu=off");
    list.pair("-qmp", "unix:fd=3,server=on,wait=off");
    list.pair("-m", "512M,slots=10,maxmem=1536M");
    list.pair(
        "-device",
        "pci-bridge,bus=pcie.0,id=pci-bridge-0,chassis_nr=1,shpc=off,addr=2,io-reserve=4k,mem-reserve=1m,pref64-reserve=1m",
    );
    list.pair("-serial", "chardev:charconsole0");
    list.pair(
        "-chardev",
        format!(
            "socket,id=charconsole0,path={},server=on,wait=off,logfile={}",
            run("console.sock"),
            run("console.log")
        ),
    );
    list.pair("-device", "virtio-scsi-pci,id=scsi0,disable-modern=false");
    for (number, disk) in sandbox.disks.iter().enumerate() {
        let id = format!("disk{number}");
        list.pair("-drive", format!("{},readonly=on", drive(&id, disk)));
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
    if let Some(image) = &sandbox.initdata {
        list.pair(
            "-device",
            "virtio-blk-pci,disable-modern=false,drive=initdata,config-wce=off,serial=initdata",
        );
        list.pair("-drive", drive("initdata", image));
    }
    list.pair("-object", "rng-random,id=rng0,filename=/dev/urandom");
    list.pair("-device", "virtio-rng-pci,rng=rng0");
    list.pair("-netdev", "user,id=network-0");
    list.pair(
        "-device",
        "driver=virtio-net-pci,netdev=network-0,mac=02:00:ca:fe:00:01,disable-modern=false,mq=off,romfile=",
    );
    list.pair("-rtc", "base=utc,driftfix=slew,clock=host");
    list.pair("-vga", "none");
    for flag in [
        "-no-user-config",
        "-nodefaults",
        "-nographic",
        "--no-reboot",
    ] {
        list.flag(flag);
    }
    list.pair("-object", "memory-backend-ram,id=dimm1,size=512M");
    list.pair("-numa", "node,memdev=dimm1");
    list.pair("-kernel", sandbox.kernel.as_os_str());
    list.pair("-initrd", sandbox.initrd.as_os_str());
    list.pair("-append", kernel_command_line(&sandbox.kernel_parameters));
    list.pair("-pidfile", run("pid"));
    list.pair("-smp", "2,cores=1,threads=1,sockets=2,maxcpus=2");
    list.0
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

/// The back end of a disk as Kata gives it; not read-only, which Kata's Go runtime leaves out for initdata.
fn drive(id: &str, image: &Path) -> String {
    format!(
        "id={id},file={},aio=threads,format=raw,if=none",
        image.display()
    )
}

fn kernel_command_line(more: &[String]) -> String {
    let mut line = String::from(
        "tsc=reliable no_timer_check rcupdate.rcu_expedited=1 i8042.direct=1 i8042.dumbkbd=1 i8042.nopnp=1 \
         i8042.noaux=1 noreplace-smp reboot=k cryptomgr.notests net.ifnames=0 pci=lastbus=0 console=ttyS0 quiet \
         panic=1 nr_cpus=2 selinux=0 scsi_mod.scan=sync",
    );
    for parameter in more {
        line.push(' ');
        line.push_str(parameter);
    }
    line
}
