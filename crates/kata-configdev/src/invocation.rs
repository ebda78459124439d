//! What a command line for QEMU says about the sandbox it starts.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::option_list::value_of;

/// Kata's runtimes name every VM `sandbox-` and the sandbox's id; a call without such a name asks
/// QEMU about itself.
const NAME_PREFIX: &[u8] = b"sandbox-";

/// What Kata's Rust runtime calls the guest's memory: this, or this and `-share`.
const WHOLE_MEMORY: &[u8] = b"entire-guest-memory";

/// QEMU's options that take no value (7.2 to 11); every other option's value is the argument behind
/// it.
///
/// Needed so that a value that looks like an option is not taken for one. A test compares this with
/// the installed QEMU. A future option missing here hides at most the one argument behind it.
const OPTIONS_WITHOUT_VALUE: &[&str] = &[
    "S",
    "async-teardown",
    "audio-help",
    "daemonize",
    "enable-kvm",
    "enable-sync-profile",
    "full-screen",
    "h",
    "help",
    "mem-prealloc",
    "no-acpi",
    "no-fd-bootchk",
    "no-hpet",
    "no-reboot",
    "no-shutdown",
    "no-user-config",
    "nodefaults",
    "nographic",
    "only-migratable",
    "portrait",
    "preconfig",
    "s",
    "semihosting",
    "singlestep",
    "snapshot",
    "usb",
    "version",
    "win2k-hack",
    "xen-attach",
    "xen-domid-restrict",
];

/// The parts of a QEMU command line that decide what the wrapper does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The sandbox's id, from `-name sandbox-<id>`; for messages only, bytes that are not UTF-8 are
    /// replaced.
    pub sandbox: Option<String>,
    /// The machine type, from `-machine` or `-M`.
    pub machine: Option<String>,
    /// `-incoming` is present: the VM's devices must equal those of the VM it is a copy of.
    pub incoming: bool,
    /// The file of `-pidfile`, which Kata's Go runtime always has and its Rust runtime never.
    pub pidfile: Option<PathBuf>,
    /// The guest's memory is this file, and other VMs see what is written there: `mem-path` of a
    /// `memory-backend-file` with `share=on`.
    pub shared_memory: Option<PathBuf>,
    /// `-netdev` is present.
    pub network: bool,
    /// The inherited socket that the runtime waits on: the number in the first `-qmp unix:fd=N`. A
    /// monitor with a path is for people.
    pub monitor: Option<RawFd>,
    /// Kata's Rust runtime asks: its `-machine` always names the guest's memory in the same way,
    /// and there is no `-pidfile`. Devices, fd sets and numbers of descriptors do not count,
    /// because they depend on what is configured.
    pub rust_runtime: bool,
}

impl Invocation {
    /// Reads `arguments`, QEMU's without its own name. Never fails: what QEMU itself will refuse is
    /// not found.
    #[must_use]
    pub fn read(arguments: &[OsString]) -> Self {
        let mut invocation = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(option) = option_name(argument.as_bytes()) else {
                continue;
            };
            if OPTIONS_WITHOUT_VALUE.iter().any(|flag| flag.as_bytes() == option) {
                continue;
            }
            let Some(value) = rest.next() else { break };
            invocation.take(option, value.as_bytes());
        }
        invocation.rust_runtime &= invocation.pidfile.is_none();
        invocation
    }

    fn take(&mut self, option: &[u8], value: &[u8]) {
        match option {
            // Kata writes the name unescaped and QEMU merges repeated options, so the last name
            // counts.
            b"name" => {
                if let Some(name) = value_of(value, "guest", "guest") {
                    self.sandbox = name
                        .strip_prefix(NAME_PREFIX)
                        .filter(|id| !id.is_empty())
                        .map(|id| String::from_utf8_lossy(id).into_owned());
                }
            }
            b"machine" | b"M" => {
                if let Some(machine) = value_of(value, "type", "type") {
                    self.machine = Some(String::from_utf8_lossy(&machine).into_owned());
                }
                self.rust_runtime |= value_of(value, "type", "memory-backend")
                    .is_some_and(|name| name.starts_with(WHOLE_MEMORY));
            }
            b"qmp" if self.monitor.is_none() => self.monitor = inherited(value),
            b"incoming" => self.incoming = true,
            b"pidfile" => self.pidfile = Some(path(value)),
            b"object" => {
                let of = |key| value_of(value, "qom-type", key);
                if of("qom-type").as_deref() == Some(b"memory-backend-file")
                    && of("share").as_deref() == Some(b"on")
                {
                    self.shared_memory = of("mem-path").as_deref().map(path);
                }
            }
            b"netdev" => self.network = true,
            _ => {}
        }
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// The number in `unix:fd=NUMBER,...`.
fn inherited(monitor: &[u8]) -> Option<RawFd> {
    let number = value_of(monitor.strip_prefix(b"unix:")?, "path", "fd")?;
    str::from_utf8(&number).ok()?.parse().ok()
}

/// The option's name where `argument` is one: QEMU accepts one dash or two.
fn option_name(argument: &[u8]) -> Option<&[u8]> {
    let name = argument.strip_prefix(b"-")?;
    Some(name.strip_prefix(b"-").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    use super::*;

    fn read(line: &[&str]) -> Invocation {
        let arguments: Vec<OsString> = line.iter().map(OsString::from).collect();
        Invocation::read(&arguments)
    }

    #[test]
    fn the_sandbox_is_found_where_qemu_finds_the_name() {
        let cases: [(&[&str], Option<&str>); 14] = [
            (&["-name", "sandbox-1"], Some("1")),
            (&["--name", "sandbox-1,debug-threads=on"], Some("1")),
            (&["-name", "guest=sandbox-1,process=x"], Some("1")),
            (&["-name", "sandbox-a,,b,debug-threads=on"], Some("a,b")),
            (&["-nodefaults", "-name", "sandbox-1", "-S"], Some("1")),
            (&["-name", "sandbox-1", "-name", "sandbox-2"], Some("2")),
            (&["-name", "sandbox-1", "-name", "other"], None),
            (&["-name", "sandbox-1", "-name", "process=x"], Some("1")),
            (&["-append", "-name", "sandbox-1"], None),
            (&["-name=sandbox-1"], None),
            (&["-name", "sandbox-"], None),
            (&["-name"], None),
            (&["--version"], None),
            (&[], None),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line).sandbox.as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn machine_and_incoming() {
        let invocation = read(&[
            "-name",
            "sandbox-1",
            "-machine",
            "q35,accel=kvm,confidential-guest-support=snp",
            "-append",
            "-incoming",
        ]);
        assert_eq!(invocation.machine.as_deref(), Some("q35"));
        assert!(!invocation.incoming, "a value is no option");
        for (line, expected) in
            [(["-M", "microvm"], "microvm"), (["-machine", "accel=tcg,type=virt"], "virt")]
        {
            assert_eq!(read(&line).machine.as_deref(), Some(expected), "{line:?}");
        }
        assert!(read(&["-no-reboot", "-incoming", "defer"]).incoming);
        assert!(read(&["--incoming", "tcp:0:1"]).incoming);
    }

    #[test]
    fn the_monitor_is_the_first_inherited_one() {
        let path = "unix:path=/extra.sock,server=on";
        let cases: [(&[&str], Option<RawFd>); 8] = [
            (&["-qmp", "unix:fd=3,server=on,wait=off"], Some(3)),
            (&["--qmp", "unix:server=on,fd=13"], Some(13)),
            (&["-qmp", path, "-qmp", "unix:fd=4"], Some(4)),
            (&["-qmp", "unix:fd=3", "-qmp", "unix:fd=4"], Some(3)),
            (&["-append", "-qmp", "unix:fd=4"], None),
            (&["-qmp", path], None),
            (&["-qmp", "unix:fd=three"], None),
            (&["-qmp", "tcp:fd=3"], None),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line).monitor, expected, "{line:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_do_no_harm() {
        let arguments = [
            "-drive".into(),
            OsString::from_vec(b"file=/\xff".to_vec()),
            "-name".into(),
            OsString::from_vec(b"sandbox-\xff".to_vec()),
        ];
        let invocation = Invocation::read(&arguments);
        assert_eq!(invocation.sandbox.as_deref(), Some("\u{fffd}"));
    }

    /// Runs the test below in a process that finds no QEMU.
    #[test]
    fn a_skipped_test_fails_where_every_test_has_to_run() {
        let test = "invocation::tests::the_installed_qemu_agrees_about_options_without_value";
        let run = |require_all: bool| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", test])
                .env("PATH", "/nonexistent")
                .env_remove("CONFIGDEV_REQUIRE_ALL");
            if require_all {
                command.env("CONFIGDEV_REQUIRE_ALL", "1");
            }
            let output = command.output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            (output.status.success(), stdout)
        };
        let (passed, stdout) = run(false);
        assert!(passed && stdout.contains("1 passed"), "{stdout}");
        let (passed, stdout) = run(true);
        assert!(!passed && stdout.contains("1 failed"), "{stdout}");
        assert!(
            stdout.contains("must not be skipped: qemu-system-x86_64 is not installed"),
            "{stdout}"
        );
    }

    /// Each name in QEMU's own help is tried as the last argument: an option with a value then
    /// complains.
    #[test]
    fn the_installed_qemu_agrees_about_options_without_value() {
        const QEMU: &str = "qemu-system-x86_64";
        let Ok(help) = Command::new(QEMU).arg("-help").output() else {
            test_command::skip(&format!("{QEMU} is not installed"));
            return;
        };
        let help = String::from_utf8(help.stdout).unwrap();
        let mut tried = 0;
        for line in help.lines() {
            let Some(option) = line
                .strip_prefix('-')
                .and_then(|line| line.split_whitespace().next())
                .map(|name| name.trim_start_matches('-'))
                .filter(|name| {
                    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                })
            else {
                continue;
            };
            // The invalid option at the end stops QEMU while it reads its command line, before it
            // does anything; an option with a value swallows it and then complains about the one
            // behind.
            let output = Command::new(QEMU)
                .args([&format!("-{option}"), "-no-such-1", "-no-such-2"])
                .output()
                .unwrap();
            let takes_none =
                !String::from_utf8_lossy(&output.stderr).contains("-no-such-2: invalid option");
            assert_eq!(OPTIONS_WITHOUT_VALUE.contains(&option), takes_none, "-{option}");
            tried += 1;
        }
        assert!(tried > 50, "only {tried} options found in -help");
    }
}
