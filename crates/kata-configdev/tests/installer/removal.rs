//! Removals that cannot reach everything.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use node_installer::{Error, Outcome, install, uninstall};
use rustix::process::{Pid, Signal, kill_process};
use test_command::wait_until;

use crate::installer::machine::{
    DOCUMENT, DROP_INS, MANIFEST, Machine, SETTINGS, WRAPPER, document, parse,
};
use crate::installer::process::program;

const WRAPPER_PROGRAM: &str = env!("CARGO_BIN_EXE_kata-configdev-qemu");

fn lines(outcome: &Outcome) -> Vec<String> {
    outcome.problems.iter().flat_map(Error::lines).collect()
}

/// A node with a document, whose wrapper is the real one, before a QEMU that says how it was
/// started.
fn machine() -> (Machine, String) {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    fs::copy(WRAPPER_PROGRAM, machine.path("wrapper")).unwrap();
    fs::create_dir(machine.path("bundle")).unwrap();
    let spec = r#"{"ociVersion":"1.1.0"}"#;
    fs::write(machine.path("bundle/config.json"), spec).unwrap();
    let qemu = machine.path("qemu");
    // By another process: what somebody has open for writing cannot be executed.
    let written = Command::new("/bin/sh")
        .args(["-c", "printf '#!/bin/sh\\necho \"$@\"\\n' >\"$0\" && chmod 755 \"$0\""])
        .arg(&qemu)
        .status();
    assert!(written.unwrap().success());
    let qemu = qemu.to_str().unwrap();
    let configuration = machine.configuration().replace("/opt/kata/bin/qemu", qemu);
    (machine, configuration)
}

/// What a sandbox starts of a handler whose drop-in stayed: QEMU without a disk.
fn assert_sandboxes_start(machine: &Machine) {
    let mut wrapper = Command::new(machine.host(WRAPPER));
    wrapper
        .args(["-name", "sandbox-1", "-machine", "q35"])
        .env("KATA_CONFIGDEV_CONFIG", machine.host(SETTINGS))
        .current_dir(machine.path("bundle"));
    // This process has installed it: a child that a neighbour has just forked may have it open for
    // writing until its `exec`.
    let mut started = wrapper.output();
    wait_until("the wrapper can be executed", || {
        let is_busy = |error: &io::Error| error.kind() == ErrorKind::ExecutableFileBusy;
        let busy = started.as_ref().is_err_and(is_busy);
        if busy {
            started = wrapper.output();
        }
        !busy
    });
    let started = started.unwrap();
    let stderr = String::from_utf8(started.stderr).unwrap();
    assert!(started.status.success(), "{stderr}");
    assert_eq!(started.stdout, b"-name sandbox-1 -machine q35\n");
    assert!(!machine.read(SETTINGS).contains("document ="));
}

/// A handler's mount was taken away before the removal: once its drop-in stopped every other
/// removal but that of the document, so that no sandbox of the node started any more.
#[test]
fn a_drop_in_that_is_not_mounted_keeps_its_wrapper_and_nothing_else() {
    for away in 0..2 {
        let (machine, configuration) = machine();
        // The program for people, which once stayed too, though no sandbox needs it.
        let program = format!("program = {:?}\n", machine.path("wrapper"));
        let options = parse(&(program + &configuration)).unwrap();
        install(&options).unwrap();
        let handler = machine.host(DROP_INS[away]);
        let handler = handler.parent().unwrap().parent().unwrap();
        fs::rename(handler, machine.path("away")).unwrap();
        let outcome = uninstall(&options).unwrap();
        let lines = lines(&outcome);
        assert_eq!((outcome.exit_code(), lines.len()), (69, 2), "{lines:?}");
        let last = format!(
            "failed to remove /{SETTINGS}, /{WRAPPER}: /{} still starts the wrapper, and",
            DROP_INS[away]
        );
        assert!(lines[1].starts_with(&last), "{lines:?}");
        assert!(!machine.host(DROP_INS[1 - away]).exists());
        assert!(!machine.host(DOCUMENT).exists());
        assert_sandboxes_start(&machine);
        // The same again changes nothing.
        let before = machine.state();
        assert_eq!(uninstall(&options).unwrap().exit_code(), 69);
        assert_eq!(machine.state(), before);

        fs::rename(machine.path("away"), handler).unwrap();
        let outcome = uninstall(&options).unwrap();
        assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
        assert_eq!(machine.files(), [""; 0]);
    }
}

#[test]
fn what_comes_back_is_installed_as_before() {
    let (machine, configuration) = machine();
    let options = parse(&configuration).unwrap();
    install(&options).unwrap();
    let before = machine.read(SETTINGS);
    fs::rename(machine.host("opt/kata/qemu-snp"), machine.path("away")).unwrap();
    uninstall(&options).unwrap();
    fs::rename(machine.path("away"), machine.host("opt/kata/qemu-snp")).unwrap();
    let outcome = install(&options).unwrap();
    assert_eq!(outcome.exit_code(), 0, "{outcome:?}");
    assert_eq!(machine.read(SETTINGS), before);
    assert_eq!(machine.read(DOCUMENT), document("one"));
}

/// An edited drop-in was left as it was, and went on starting a wrapper that was gone.
#[test]
fn an_edited_drop_in_loses_the_line_with_the_wrapper() {
    let (machine, configuration) = machine();
    let options = parse(&configuration).unwrap();
    install(&options).unwrap();
    let ours = machine.read(DROP_INS[0]);
    let theirs = "# more memory\ndefault_memory = 4096\n";
    fs::write(machine.host(DROP_INS[0]), format!("{ours}{theirs}")).unwrap();
    let outcome = uninstall(&options).unwrap();
    let lines = lines(&outcome);
    assert_eq!((outcome.exit_code(), lines.len()), (65, 1), "{lines:?}");
    assert!(lines[0].contains("its line with the wrapper goes"), "{lines:?}");
    assert_eq!(machine.files(), [DROP_INS[0], MANIFEST]);
    let left = machine.read(DROP_INS[0]);
    assert!(left.ends_with(&format!("[hypervisor.qemu]\n{theirs}")), "{left}");
    assert!(!left.contains("path"), "{left}");
    // The rest is told as long as it has this name.
    let before = machine.state();
    let outcome = uninstall(&options).unwrap();
    assert_eq!(outcome.exit_code(), 65);
    let path = DROP_INS[0];
    let line = format!("failed to remove /{path}: somebody else changed it, so that it is left");
    assert!(self::lines(&outcome)[0].starts_with(&line), "{outcome:?}");
    assert_eq!(machine.state(), before);
    let theirs = machine.host(path).with_file_name("90-memory.toml");
    fs::rename(machine.host(path), theirs).unwrap();
    assert_eq!(uninstall(&options).unwrap().exit_code(), 0);
    assert!(!machine.host("opt/kata-configdev").exists());
}

/// The agent's second pass once found everything as it should be, and its last words were that what
/// is installed stays, with the exit code 0.
#[test]
fn an_agent_that_removes_tells_what_is_left_until_it_is_gone() {
    let mut machine = Machine::new();
    machine.mount_document(&document("one"));
    install(&machine.options()).unwrap();
    let edited = [SETTINGS, DROP_INS[1]];
    for path in edited {
        let text = machine.read(path) + "# mine\n";
        fs::write(machine.host(path), text).unwrap();
    }
    // It is the same for one that comes later.
    for _ in 0..2 {
        let (code, log) = removing(&machine, |log| {
            edited
                .iter()
                .all(|path| log.contains(&format!("failed to remove /{path}: somebody else")))
        });
        assert_eq!(code, Some(65), "{log}");
        assert!(!log.contains("everything is as it should be"), "{log}");
        let (_, last) = log.split_once("asked to end").unwrap();
        let last: Vec<&str> = last.lines().skip(1).collect();
        assert_eq!(last.len(), 2, "{log}");
        for path in edited {
            let line = format!("ERROR failed to remove /{path}: somebody else changed it");
            assert!(last.iter().any(|said| said.contains(&line)), "{log}");
        }
        assert_eq!(machine.files(), [SETTINGS, DROP_INS[1], MANIFEST]);
        assert!(!machine.read(DROP_INS[1]).contains("path"));
    }
    fs::remove_file(machine.host(SETTINGS)).unwrap();
    assert_eq!(uninstall(&machine.options()).unwrap().exit_code(), 65);
    // The last one goes while it runs, with nothing else to do. It need not wait for the next look
    // at everything.
    let mut left = Some(machine.host(DROP_INS[1]));
    let (code, log) = removing(&machine, |log| {
        if log.contains("failed to remove")
            && let Some(path) = left.take()
        {
            fs::remove_file(path).unwrap();
        }
        log.contains("everything is as it should be")
    });
    assert_eq!(code, Some(0), "{log}");
    assert!(log.ends_with("asked to end; nothing that was installed is left\n"), "{log}");
    assert!(!machine.host("opt/kata-configdev").exists());
}

/// Runs the agent that removes everything until its log is `enough`. The answers are its exit code
/// and its log.
fn removing(machine: &Machine, mut enough: impl FnMut(&str) -> bool) -> (Option<i32>, String) {
    let log = machine.path("log");
    let mut process = program(machine, "watch")
        .arg("--remove")
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    wait_until("the log", || enough(&fs::read_to_string(&log).unwrap()));
    kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
    let code = process.wait().unwrap().code();
    (code, fs::read_to_string(log).unwrap())
}

#[test]
fn a_drop_in_that_nobody_can_take_apart_keeps_its_wrapper() {
    for is_link in [true, false] {
        let (machine, configuration) = machine();
        let options = parse(&configuration).unwrap();
        install(&options).unwrap();
        let drop_in = machine.host(DROP_INS[0]);
        match is_link {
            true => {
                fs::rename(&drop_in, machine.host("opt/kata/theirs")).unwrap();
                symlink("../../theirs", &drop_in).unwrap();
            }
            false => {
                let text = format!("[hypervisor.qemu]\npath = '''\n/{WRAPPER}'''\n");
                fs::write(&drop_in, text).unwrap();
            }
        }
        let outcome = uninstall(&options).unwrap();
        let lines = lines(&outcome);
        assert_eq!((outcome.exit_code(), lines.len()), (65, 2), "{lines:?}");
        assert!(lines[0].contains("is not a line of its own"), "{lines:?}");
        assert!(lines[1].contains(" still starts the wrapper"), "{lines:?}");
        assert!(!machine.host(DROP_INS[1]).exists() && !machine.host(DOCUMENT).exists());
        assert_sandboxes_start(&machine);
        fs::remove_file(drop_in).unwrap();
        assert_eq!(uninstall(&options).unwrap().exit_code(), 0);
        assert!(!machine.host("opt/kata-configdev").exists());
    }
}

/// The wrapper of another set is not kept for it.
#[test]
fn only_the_set_of_the_drop_in_that_stays_stays() {
    let (mut machine, configuration) = machine();
    machine.mount_other("second", &[("imagepuller.toml", &document("two"))]);
    let configuration = configuration.replace(", \"/opt/kata/qemu-tdx\"", "")
        + &format!(
            "[sets.second]\nsecret = {:?}\nhandlers = [\"/opt/kata/qemu-tdx\"]\nsettings-file = \
            \"/opt/kata-configdev/second/etc/kata-configdev/config.toml\"\n\
            settings = {{ qemu = {:?} }}\n",
            machine.path("second"),
            machine.path("qemu"),
        );
    let options = parse(&configuration).unwrap();
    assert_eq!(install(&options).unwrap().exit_code(), 0);
    fs::rename(machine.host("opt/kata/qemu-snp"), machine.path("away")).unwrap();
    assert_eq!(uninstall(&options).unwrap().exit_code(), 69);
    assert_eq!(machine.files(), [SETTINGS, WRAPPER, MANIFEST]);
    assert_sandboxes_start(&machine);
}

/// Credentials go in every case, and settings that somebody edited lose them as well.
#[test]
fn edited_settings_that_stay_lose_the_document() {
    let (machine, configuration) = machine();
    let options = parse(&configuration).unwrap();
    install(&options).unwrap();
    let text = machine.read(SETTINGS) + "# mine\n";
    fs::write(machine.host(SETTINGS), text).unwrap();
    fs::rename(machine.host("opt/kata/qemu-snp"), machine.path("away")).unwrap();
    assert_eq!(uninstall(&options).unwrap().exit_code(), 69);
    assert!(machine.read(SETTINGS).ends_with("# mine\n"));
    assert!(!machine.host(DOCUMENT).exists());
    assert_sandboxes_start(&machine);
}
