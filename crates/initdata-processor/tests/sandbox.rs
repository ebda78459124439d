//! The sandbox, tried from inside and looked at from outside; and the wait for late disks, in it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use initdata_processor::insecure::Insecure;
use initdata_processor::journal::{Journal, Log};
use initdata_processor::measured::{Layout, Measured};
use initdata_processor::sandbox;
use initdata_processor::settings::Settings;
use initdata_processor::withdraw::{Nodes, TAKEN};
use machine::{CONFIGURATION, DOCUMENT, Machine, UNVERIFIED, configuration, initdata, skip};
use process_sandbox::files::Grant;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fchmod, linkat, mkdirat, openat, renameat_with,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrUnix};
use rustix::process::{Pid, Signal, kill_process};

/// The wall of files says `EACCES`, the list of calls `EPERM`; each must hold without the other.
#[track_caller]
fn by_files<T>(result: Result<T, Errno>) {
    assert_eq!(result.err(), Some(Errno::ACCESS));
}

#[track_caller]
fn by_calls<T>(result: Result<T, Errno>) {
    assert_eq!(result.err(), Some(Errno::PERM));
}

/// A file opened in the way that the list of calls allows.
fn open(path: impl AsRef<Path>, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(CWD, path.as_ref(), flags, Mode::RUSR | Mode::WUSR)
}

fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), Errno> {
    renameat_with(CWD, from.as_ref(), CWD, to.as_ref(), RenameFlags::empty())
}

#[test]
fn inside_only_disks_can_be_read_and_only_results_written() {
    let machine = Machine::new().disk("vda", &initdata(DOCUMENT)).disk("vdb", b"").disk("vdc", b"");
    let run = machine.path().join("run");
    for directory in ["systemd", "empty"] {
        fs::create_dir(run.join(directory)).unwrap();
    }
    fs::write(run.join("systemd/unit"), "").unwrap();
    let paths = machine.options.paths.clone();
    let sockets =
        ["connected", "other"].map(|name| UnixDatagram::bind(machine.path().join(name)).unwrap());
    let notify = UnixDatagram::unbound().unwrap();
    notify.connect(machine.path().join("connected")).unwrap();
    let other = SocketAddrUnix::new(machine.path().join("other")).unwrap();
    // The rights are a thread's.
    thread::spawn(move || {
        let settings = Settings::default();
        let disk = settings.accepted_disk;
        let measured = Measured::prepare(&paths, Layout::KataAgent, disk, "not yet").unwrap();
        let insecure = Insecure::make(&paths.run, None).unwrap();
        let mut grants = measured.grants();
        grants.push((insecure.directory(), Grant::Files));
        let nodes = Nodes::open(&paths).unwrap();
        grants.extend(nodes.grants());
        let mut sink = Vec::new();
        let mut journal = Journal::new(&mut sink, Log::Stderr, true);
        sandbox::enter(&paths, &settings, grants, None, &[], &mut journal).unwrap();
        let log = String::from_utf8(sink).unwrap();
        assert!(log.contains("seccomp on"), "{log}");

        // What the work takes.
        let disk = open(paths.dev.join("vda"), OFlags::RDONLY).unwrap();
        measured.refuse("a reason").unwrap();
        insecure.store(&settings.files[0], CONFIGURATION.as_bytes()).unwrap();
        measured.refuse("another").unwrap();
        assert!(notify.send(b"READY=1").is_ok());
        unlinkat(CWD, paths.dev.join("vdb"), AtFlags::empty()).unwrap();

        by_calls(rustix::net::sendto(&notify, b"x", SendFlags::empty(), &other));
        by_calls(fchmod(&disk, Mode::from_raw_mode(0o4755)));
        by_calls(rustix::fs::fchown(&disk, None, None));
        by_calls(rustix::io::ioctl_fionbio(&notify, true));
        by_calls(rustix::fs::fcntl_setfl(&notify, OFlags::ASYNC));
        by_calls(mkdirat(CWD, run.join("measured-cfg/x"), Mode::RWXU));
        by_calls(symlinkat("/", CWD, run.join("measured-cfg/x")));
        by_calls(linkat(CWD, paths.dev.join("vda"), CWD, run.join("x"), AtFlags::empty()));
        let errno = |error: io::Error| Errno::from_io_error(&error).unwrap();
        by_calls(Command::new("/bin/true").spawn().map_err(errno));
        by_calls(TcpListener::bind("127.0.0.1:0").map_err(errno));
        by_calls(UnixDatagram::unbound().map_err(errno));

        if log.contains("no Landlock") {
            return skip("in part: this kernel has no Landlock");
        }
        by_files(open(paths.dev.join("vda"), OFlags::WRONLY));
        // Nodes are removed or taken away, for good, and none takes another's place.
        let taken = paths.dev.join(TAKEN).join("vdc");
        rename(paths.dev.join("vdc"), &taken).unwrap();
        by_files(rename(&taken, paths.dev.join("vdc")));
        by_files(rename(paths.dev.join("vda"), paths.dev.join("vdb")));
        by_files(open(paths.dev.join("x"), OFlags::WRONLY | OFlags::CREATE));
        by_files(open("/etc/passwd", OFlags::RDONLY));
        by_files(open(&paths.cmdline, OFlags::RDONLY));
        by_files(open(run.join("systemd/unit"), OFlags::RDONLY));
        by_files(open(run.join("systemd/unit"), OFlags::WRONLY));
        by_files(open(run.join("new"), OFlags::WRONLY | OFlags::CREATE));
        by_files(open(run.join("systemd/new"), OFlags::WRONLY | OFlags::CREATE));
        by_files(unlinkat(CWD, run.join("systemd/unit"), AtFlags::empty()));
        by_files(unlinkat(CWD, run.join("empty"), AtFlags::REMOVEDIR));
        // A directory that may be written must not take another's name, nor another come in its
        // place.
        by_files(rename(run.join("systemd"), run.join("old")));
        by_files(rename(run.join("insecure-cfg"), run.join("modprobe.d")));
        by_files(rename(run.join(".measured-cfg"), run.join("modprobe.d")));
        by_files(rename(run.join("measured-cfg"), run.join("old")));
        let outside = rename(run.join(".measured-cfg/current"), run.join("modprobe.d"));
        assert!(matches!(outside, Err(Errno::ACCESS | Errno::XDEV)));
    })
    .join()
    .unwrap();
    assert!(machine.deny_policy().contains("another"));
    let files = machine.insecure().unwrap();
    assert_eq!(files["imagepuller.toml"], CONFIGURATION);
    let [connected, other] = sockets;
    let mut buffer = [0; 16];
    assert_eq!(connected.recv(&mut buffer).unwrap(), 7);
    other.set_nonblocking(true).unwrap();
    assert!(other.recv(&mut buffer).is_err());
}

/// A running program, ended when dropped.
struct Running(Child);

impl Running {
    fn start(machine: &Machine, arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
            .args(["--root", machine.path().to_str().unwrap(), "--strict-exit", "-v"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// The process at work, if there is one.
    fn worker(&self) -> Option<u32> {
        let id = self.0.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.trim().parse().ok()
    }

    /// Waits until the process at work is in its sandbox, and returns what the kernel says of it.
    fn status(&mut self) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let worker = self.worker().map(|worker| format!("/proc/{worker}/status"));
            let status = worker.map_or_else(String::new, |path| fs::read_to_string(path).unwrap());
            if status.contains("Seccomp:\t2") {
                return status;
            }
            assert_eq!(self.0.try_wait().unwrap(), None, "it waits");
            assert!(Instant::now() < end, "{status}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(mut self) -> (Option<i32>, String) {
        let log = io::read_to_string(self.0.stderr.take().unwrap()).unwrap();
        (self.0.wait().unwrap().code(), log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the kernel announce a block device, as it does when one appears; `false` where that is not
/// allowed.
fn announce() -> bool {
    let devices = fs::read_dir("/sys/class/block").unwrap();
    let announced = devices
        .map(|entry| entry.unwrap().path().join("uevent"))
        .find(|path| fs::write(path, "change").is_ok());
    if announced.is_none() {
        skip("no block device can be made to announce itself (needs root)");
    }
    announced.is_some()
}

#[test]
fn privileged_a_late_disk_is_found_by_a_program_in_its_sandbox() {
    if !announce() {
        return;
    }
    for (parameter, options) in [
        ("configdev.expect=imagepuller,initdata", &[][..]),
        ("", &["--expect", "initdata", "--expect", "imagepuller"]),
    ] {
        let mut machine = Machine::new().cmdline(&format!("{parameter} {UNVERIFIED}"));
        let mut running = Running::start(&machine, &[&["--wait", "60"], options].concat());
        let status = running.status();
        for line in [
            "NoNewPrivs:\t1",
            "CapEff:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapInh:\t0000000000000000",
            "Seccomp:\t2",
        ] {
            assert!(status.contains(line), "{line}\n{status}");
        }
        // Whoever looks meanwhile, or kills it now, finds a closed guest.
        assert!(machine.deny_policy().contains("was stopped before its end"));
        assert!(machine.is_marked_refused());
        assert_eq!(machine.insecure().unwrap().len(), 1);

        // The announcements of other devices, and of this one before its disk can be read, change
        // nothing.
        announce();
        machine = machine.disk("vda", &initdata(DOCUMENT));
        announce();
        machine = machine.disk("vdb", &configuration(CONFIGURATION));
        announce();
        let (code, log) = running.finish();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("for late disks, looked "), "{log}");
        assert_eq!(machine.measured().unwrap().len(), 2);
        let files = machine.insecure().unwrap();
        assert_eq!(files["imagepuller.toml"], CONFIGURATION);
        assert!(!machine.is_marked_refused());
    }
}

#[test]
fn a_killed_program_leaves_a_closed_guest_and_the_next_run_opens_it() {
    let mut machine = Machine::new().cmdline(UNVERIFIED);
    let mut running = Running::start(&machine, &["--wait", "60", "--expect", "initdata"]);
    running.status();
    drop(running);
    assert!(machine.deny_policy().contains("was stopped before its end"));
    let insecure = machine.insecure().unwrap();
    assert!(insecure["imagepuller.error"].contains("was stopped before its end"));
    machine = machine.disk("vda", &initdata(DOCUMENT));
    let (code, log) = Running::start(&machine, &[]).finish();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(machine.measured().unwrap().len(), 2);
}

#[test]
fn a_worker_that_dies_leaves_a_refusal_with_that_reason_and_no_disk() {
    let machine = Machine::new().cmdline(UNVERIFIED).disk("vda", &initdata(DOCUMENT));
    let mut running = Running::start(&machine, &["--wait", "60", "--expect", "imagepuller"]);
    running.status();
    let worker = i32::try_from(running.worker().unwrap()).unwrap();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    let (code, log) = running.finish();
    assert_eq!(code, Some(65), "{log}");
    let policy = machine.deny_policy();
    assert!(policy.contains("in a process of its own: unexpected end of file"), "{policy}");
    assert!(!machine.node("vda").exists());
}

#[test]
fn a_disk_that_never_comes_ends_the_wait() {
    let machine = Machine::new().cmdline(UNVERIFIED).disk("vda", &initdata(DOCUMENT));
    let (code, log) =
        Running::start(&machine, &["--wait", "1", "--expect", "imagepuller"]).finish();
    assert_eq!(code, Some(65), "{log}");
    assert!(log.contains("magic \"imgpullr\" did not appear within 1 s"), "{log}");
    let error = &machine.insecure().unwrap()["imagepuller.error"];
    assert!(error.contains("came within 1 s"), "{error}");

    let machine = Machine::new().cmdline("configdev.expect=initdate");
    let (code, log) = Running::start(&machine, &[]).finish();
    assert_eq!(code, Some(65), "{log}");
    let policy = machine.deny_policy();
    assert!(policy.contains("the known ones are initdata, imagepuller"));
}

#[test]
fn systemd_hears_of_the_outcome_and_of_no_success_without_a_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let listener = UnixDatagram::bind(&path).unwrap();
    let refused = "STATUS=initdata refused, the guest may run nothing\n";
    let placed = "STATUS=initdata NOT verified; imagepuller: in place\n";
    for (cmdline, has_run, ready, status) in [
        (UNVERIFIED, true, "READY=1\n", placed),
        ("", true, "READY=1\n", refused),
        (UNVERIFIED, false, "", refused),
    ] {
        let machine = Machine::new()
            .cmdline(cmdline)
            .disk("vda", &initdata(DOCUMENT))
            .disk("vdb", &configuration(CONFIGURATION));
        if !has_run {
            fs::remove_dir(machine.path().join("run")).unwrap();
        }
        let output = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
            .args(["--root", machine.path().to_str().unwrap()])
            .env("NOTIFY_SOCKET", &path)
            .output()
            .unwrap();
        assert_eq!(output.status.success(), has_run);
        let mut buffer = [0; 256];
        let length = listener.recv(&mut buffer).unwrap();
        let told = str::from_utf8(&buffer[..length]).unwrap();
        assert_eq!(told, format!("{ready}{status}"));
    }
}

#[test]
fn the_kernels_log_gets_whole_lines() {
    let machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    // A guest's is a device; here a file shows what was written.
    fs::write(machine.node("kmsg"), "").unwrap();
    let (code, log) = Running::start(&machine, &["--log", "kmsg"]).finish();
    assert_eq!((code, log.as_str()), (Some(65), ""));
    let lines = fs::read_to_string(machine.node("kmsg")).unwrap();
    assert!(lines.contains("<3>initdata-processor: error: initdata refused: "), "{lines}");
    fs::remove_file(machine.node("kmsg")).unwrap();
    let (code, log) = Running::start(&machine, &["--log", "kmsg"]).finish();
    assert_eq!(code, Some(65));
    assert!(log.contains("kmsg cannot be opened"), "{log}");
}
