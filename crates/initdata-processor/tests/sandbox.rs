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
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use initdata_processor::agent::{Agent, TAKEN};
use initdata_processor::insecure::Insecure;
use initdata_processor::journal::{Journal, Log};
use initdata_processor::settings::{AcceptedDisk, IMAGEPULLER};
use initdata_processor::swap::Swap;
use initdata_processor::{policy, sandbox};
use machine::{CONFIGURATION, DOCUMENT, Machine, UNVERIFIED, configuration, initdata, skip};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fchmod, linkat, mkdirat, openat, renameat_with,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
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
    let listener = UnixDatagram::bind(machine.path().join("socket")).unwrap();
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(machine.path().join("socket")).unwrap();
    // The rights are a thread's.
    thread::spawn(move || {
        let measured = Swap::prepare(&paths.run, "measured-cfg", &[]).unwrap();
        let mut agent = Agent::close(&paths, AcceptedDisk::Remove).unwrap();
        agent.put_back(&paths.dev);
        let insecure = Insecure::make(&paths.run, None).unwrap();
        let mut grants = agent.grants();
        grants.extend(sandbox::results(measured.home(), &insecure));
        let mut sink = Vec::new();
        let mut journal = Journal::new(&mut sink, Log::Stderr, true);
        sandbox::enter(&paths, None, grants, None, &[], &mut journal).unwrap();
        let log = String::from_utf8(sink).unwrap();
        assert!(log.contains("seccomp on"), "{log}");

        // What the work takes.
        let disk = open(paths.dev.join("vda"), OFlags::RDONLY).unwrap();
        for reason in ["a reason", "another"] {
            let policy = policy::policy(reason);
            measured.place(&[(policy::FILE, policy.as_bytes())]).unwrap();
            agent.refuse().unwrap();
        }
        insecure.store(&IMAGEPULLER, CONFIGURATION.as_bytes()).unwrap();
        insecure.note(&IMAGEPULLER, "vda 1:2 3").unwrap();
        unlinkat(CWD, paths.dev.join("vdb"), AtFlags::empty()).unwrap();

        by_calls(rustix::net::send(&socket, b"x", rustix::net::SendFlags::empty()));
        by_calls(fchmod(&disk, Mode::from_raw_mode(0o4755)));
        by_calls(rustix::fs::fchown(&disk, None, None));
        by_calls(rustix::io::ioctl_fionbio(&socket, true));
        by_calls(rustix::fs::fcntl_setfl(&socket, OFlags::ASYNC));
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
    drop(listener);
}

/// A running program, ended when dropped.
struct Running(Child);

impl Running {
    fn start(machine: &Machine, arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_initdata-processor"))
            .args(["--root", machine.path().to_str().unwrap(), "-v"])
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

#[test]
fn a_late_disk_is_found_by_a_program_in_its_sandbox() {
    let cmdline = format!("configdev.expect=imagepuller,initdata {UNVERIFIED}");
    let mut machine = Machine::new().cmdline(&cmdline).settings("wait = 60\n");
    let mut running = Running::start(&machine, &[]);
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

    // One after the other, and first without its content.
    machine = machine.disk("vda", b"").plug("vda", &initdata(DOCUMENT));
    machine = machine.disk("vdb", &configuration(CONFIGURATION));
    let (code, log) = running.finish();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("for late disks, looked "), "{log}");
    assert_eq!(machine.measured().unwrap().len(), 2);
    let files = machine.insecure().unwrap();
    assert_eq!(files["imagepuller.toml"], CONFIGURATION);
    assert!(!machine.is_marked_refused());
}

#[test]
fn a_killed_program_leaves_a_closed_guest_and_the_next_run_opens_it() {
    let expect = format!("configdev.expect=initdata {UNVERIFIED}");
    let mut machine = Machine::new().cmdline(&expect).settings("wait = 60\n");
    let mut running = Running::start(&machine, &[]);
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
    let expect = format!("configdev.expect=imagepuller {UNVERIFIED}");
    let machine = Machine::new().cmdline(&expect).settings("wait = 60\n");
    let machine = machine.disk("vda", &initdata(DOCUMENT));
    let mut running = Running::start(&machine, &[]);
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
    let expect = format!("configdev.expect=imagepuller {UNVERIFIED}");
    let machine = Machine::new().cmdline(&expect).settings("wait = 1\n");
    let machine = machine.disk("vda", &initdata(DOCUMENT));
    // Others come and go all the time, which moves no deadline.
    let running = Running::start(&machine, &[]);
    let (block, sysfs) = (machine.options.paths.block.join("vdb"), "../devices/virtual/block/vdb");
    let storm = AtomicBool::new(true);
    let (code, log) = thread::scope(|scope| {
        scope.spawn(|| {
            while storm.load(Ordering::Relaxed) {
                std::os::unix::fs::symlink(sysfs, &block).unwrap();
                fs::remove_file(&block).unwrap();
            }
        });
        let ended = running.finish();
        storm.store(false, Ordering::Relaxed);
        ended
    });
    assert_eq!(code, Some(0), "{log}");
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
