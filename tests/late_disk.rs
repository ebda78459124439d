//! Disks that come late, never, or among many others.
//!
//! A disk comes late either because its driver binds late (unbound and bound again in the guest) or
//! because the host plugs it in after the boot (QMP). The job binds it only when the program is in
//! its sandbox, in which it looks at disks, so that "late" does not depend on the machine's speed;
//! that the program looked more than once is asserted, how long it took is not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result};
use config_image::{Magic, encode};
use end_to_end::{assert_tells, run};
use vm_harness::{
    Evidence, Guest, Report, Scenario, Scratch, decoy, despite_crash, has_mark, site,
};

const DOCUMENT: &str = "[registries.\"registry.corp\"]\nusername = \"a\"\npassword = \"b\"\n";

/// What the jobs below share.
const SHELL: &str = r#"
[ -z "$TEE" ] || insmod /modules/tee_fixture.ko $TEE
driver=/sys/bus/virtio/drivers/virtio_blk
# The virtio device behind the disk with this serial.
device() { basename "$(readlink -f "$(dirname "$(grep -lx "$1" /sys/block/*/serial)")/device")"; }
# Whether the process that looks at disks is in its sandbox.
looking() {
    for status in /proc/[0-9]*/status; do
        grep -q '^Name:.initdata-proces$' $status && grep -q '^Seccomp:.2$' $status && return
    done 2>/dev/null
    return 1
}
# Once the program looks and has had the time for a first look, in microseconds.
after_first_look() {
    tries=0
    until looking || [ $tries -ge 1000 ]; do tries=$((tries + 1)); usleep 10000; done
    usleep "${1:-300000}"
}
cp /proc/cmdline /tmp/first
# expect NAMES: as the kernel's command line names them.
expect() {
    echo "$(cat /tmp/first) configdev.expect=$1" >/tmp/cmdline
    umount /proc/cmdline 2>/dev/null
    mount -o bind /tmp/cmdline /proc/cmdline
}
settings() { mkdir -p /etc; printf "$1" >/etc/initdata-processor.toml; }
# try CASE: what the program said, left behind, and took.
try() {
    name=$1
    rm -rf /run/measured-cfg /run/insecure-cfg
    time -f %M -o /tmp/peak initdata-processor --verbose 2>/tmp/said
    mark "$name" "exit $?"
    while read -r line; do mark "$name-said" "$line"; done </tmp/said
    for file in /run/measured-cfg/* /run/insecure-cfg/*; do [ ! -f "$file" ] || mark "$name-file" "$file"; done
    [ ! -f /run/measured-cfg/policy.rego ] || while read -r line; do mark "$name-policy" "$line"; done </run/measured-cfg/policy.rego
    # A failed program adds a line; busybox takes the kernel's KiB for pages of 4 KiB.
    mark "$name-peak" $(($(tail -n 1 /tmp/peak) / 4))
}
"#;

/// Everything that a case said, as one text.
fn said(report: &Report, case: &str) -> String {
    let lines: Vec<&str> = report.values(&format!("{case}-said")).collect();
    lines.join("\n")
}

fn files<'a>(report: &'a Report, case: &str) -> Vec<&'a str> {
    report.values(&format!("{case}-file")).collect()
}

/// Both documents are in place.
#[track_caller]
fn assert_complete(report: &Report, case: &str) {
    assert_eq!(report.value(case), Some("exit 0"), "{}", report.console);
    assert_eq!(
        files(report, case),
        [
            "/run/measured-cfg/aa.toml",
            "/run/measured-cfg/policy.rego",
            "/run/insecure-cfg/imagepuller.toml"
        ],
        "{case}: {}",
        said(report, case)
    );
}

/// The first look did not find everything, a later one did.
#[track_caller]
fn assert_waited(report: &Report, case: &str) {
    let said = said(report, case);
    println!("{case}: {said}");
    assert_tells(&said, &["waited ", "looked "]);
}

/// The deny-all policy is in place, with this reason, and nothing else of use.
#[track_caller]
fn assert_refused(report: &Report, case: &str, words: &[&str]) {
    let policy: Vec<&str> = report.values(&format!("{case}-policy")).collect();
    let policy = format!("{}\n{}", policy.join("\n"), said(report, case));
    assert_tells(&policy, &["default CreateContainerRequest := false"]);
    assert_tells(&policy, words);
    let (measured, insecure): (Vec<_>, Vec<_>) =
        files(report, case).into_iter().partition(|file| file.starts_with("/run/measured-cfg/"));
    assert_eq!(measured, ["/run/measured-cfg/policy.rego"], "{case}");
    assert!(
        insecure.contains(&"/run/insecure-cfg/imagepuller.error")
            && !insecure.contains(&"/run/insecure-cfg/imagepuller.toml"),
        "{case}: {insecure:?}"
    );
}

/// SNP evidence for the sample initdata; the disks are there as far as the test wants them.
fn scenario(job: &str) -> Scenario {
    let initdata = site::sample_initdata();
    Scenario {
        document: Some(DOCUMENT.to_owned()),
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata),
        ..Scenario::bare(format!("{SHELL}{job}"))
    }
}

#[test]
fn a_driver_that_binds_late() -> Result<()> {
    let report = run(&scenario(
        r#"
initdata=$(device initdata)
imagepuller=$(device imagepuller)
late() { (after_first_look; echo "$1" >$driver/bind) & }

# The evidence announces initdata, which is as good as the parameter; the default limit must do.
echo "$initdata" >$driver/unbind
(after_first_look 100000; echo "$initdata" >$driver/bind) &
try announced
wait

echo "$imagepuller" >$driver/unbind
late "$imagepuller"
settings 'wait = 20\n'
expect imagepuller
try configuration
wait

# Nobody expects the configuration: the program does not wait for it.
echo "$imagepuller" >$driver/unbind
expect ""
try unexpected
echo "$imagepuller" >$driver/bind

echo "$initdata" >$driver/unbind
settings 'wait = 1\n'
try never
"#,
    ))?;
    for case in ["announced", "configuration"] {
        assert_complete(&report, case);
        assert_waited(&report, case);
    }

    assert_eq!(report.value("unexpected"), Some("exit 0"));
    assert_eq!(
        files(&report, "unexpected"),
        ["/run/measured-cfg/aa.toml", "/run/measured-cfg/policy.rego"]
    );
    assert!(!said(&report, "unexpected").contains("looked"));

    assert_eq!(report.value("never"), Some("exit 65"));
    assert_tells(&said(&report, "never"), &["\"initdata\" did not appear within 1 s"]);
    assert_refused(&report, "never", &["announces initdata", "none of the disks"]);
    Ok(())
}

#[test]
fn a_configuration_disk_plugged_into_a_root_port() -> Result<()> {
    plugged_into("rp0")
}

#[test]
fn a_configuration_disk_plugged_into_katas_bridge() -> Result<()> {
    plugged_into("pci-bridge-0")
}

/// The host plugs the configuration in after the boot; the kernel parameter expects it.
fn plugged_into(bus: &str) -> Result<()> {
    let report = despite_crash(|| boot_and_plug(bus))?;

    // Without the disk: every pull says so, and initdata counts all the same.
    assert_eq!(report.value("before"), Some("exit 0"));
    assert_tells(&said(&report, "before"), &["\"imgpullr\" did not appear within 1 s"]);
    assert_eq!(
        files(&report, "before"),
        [
            "/run/measured-cfg/aa.toml",
            "/run/measured-cfg/policy.rego",
            "/run/insecure-cfg/imagepuller.error"
        ]
    );

    assert_complete(&report, "plugged");
    assert_waited(&report, "plugged");
    Ok(())
}

fn boot_and_plug(bus: &str) -> Result<Report> {
    let scratch = Scratch::new()?;
    let image = encode(Magic::IMAGEPULLER, DOCUMENT.as_bytes())?;
    let image = scratch.write("late.img", image)?;
    let scenario = Scenario {
        document: None,
        kernel_parameters: vec!["configdev.expect=imagepuller".to_owned()],
        // As Kata's Go runtime has it where `pcie_root_port` asks for one.
        arguments: [
            "-device",
            "pcie-root-port,id=rp0,bus=pcie.0,chassis=0,slot=0,multifunction=off",
        ]
        .map(Into::into)
        .into(),
        ..scenario(
            r#"
settings 'wait = 1\n'
try before
(after_first_look; mark waiting) &
settings 'wait = 60\n'
try plugged
wait
"#,
        )
    };
    let mut guest = Guest::boot_in(&scenario, scratch)?;
    let mut qmp = guest.qmp()?;
    let mut plugged = None;
    let report = guest.finish(|console| {
        if plugged.is_none() && has_mark(console, "waiting") {
            plugged = Some(qmp.plug(&image, "imagepuller", bus));
        }
    })?;
    plugged.context("the guest never waited")??;
    Ok(report)
}

/// A disk that all but stops once put the program into a state in which nothing could end it: the
/// guest stood without a reason for as long as it ran.
#[test]
fn a_disk_that_does_not_answer_is_named_and_left_behind() -> Result<()> {
    let report = despite_crash(boot_and_slow_down)?;
    let said = said(&report, "slow");
    println!("{said}");
    assert_eq!(report.value("slow"), Some("exit 65"), "{said}");
    let disk = report.value("name").context("no disk")?;
    let words = format!("{disk}: waiting for the disk to answer");
    assert_tells(&said, &[&words, "device nodes of disks taken away"]);
    let reason = format!("read disk {disk}: it does not answer in time, 2 s");
    assert_refused(&report, "slow", &[&reason]);
    assert_eq!(report.value("nodes"), Some("0"));
    // Nor does the one that was left behind keep the lock.
    assert_eq!(report.value("again"), Some("exit 65"));
    Ok(())
}

fn boot_and_slow_down() -> Result<Report> {
    let scratch = Scratch::new()?;
    let image = encode(Magic::new(*b"anything")?, b"")?;
    let sign = scratch.write("sign.img", &image)?;
    let slow = scratch.write("slow.img", [0; 1 << 20])?;
    let drive = format!("id=slow,file={},format=raw,if=none,readonly=on", slow.display());
    let disk = "virtio-blk-pci,bus=pcie.0,addr=0x1e,drive=slow,serial=slow";
    let scenario = Scenario {
        arguments: ["-drive", &drive, "-device", disk].map(Into::into).into(),
        ..scenario(
            r#"
slow=$(basename "$(dirname "$(grep -lx slow /sys/block/*/serial)")")
mark name "$slow"
tries=0
mark waiting
until grep -qx sign /sys/block/*/serial || [ $tries -ge 3000 ]; do tries=$((tries + 1)); usleep 20000; done
# The last bytes that come at once.
dd if=/dev/$slow of=/dev/null bs=4096 count=1
settings 'wait = 0\npatience = 2\n'
try slow
mark nodes "$(find /dev -maxdepth 1 -type b | wc -l)"
initdata-processor
mark again "exit $?"
"#,
        )
    };
    let mut guest = Guest::boot_in(&scenario, scratch)?;
    let mut qmp = guest.qmp()?;
    let mut done = [None, None];
    let report = guest.finish(|console| {
        if done[0].is_none() && has_mark(console, "waiting") {
            let slowed = qmp.throttle("slow", true);
            done[0] = Some(slowed.and_then(|()| qmp.plug(&sign, "sign", "pci-bridge-0")));
        }
        // The kernel waits for its disks before it ends.
        if done[1].is_none() && has_mark(console, "again") {
            done[1] = Some(qmp.throttle("slow", false));
        }
    })?;
    for step in done {
        step.context("the guest did not get there")??;
    }
    Ok(report)
}

/// A refresh once waited for a disk for ever, with the lock, so that no later run came to an end.
#[test]
fn a_disk_that_stops_answering_holds_neither_a_pull_nor_a_later_run() -> Result<()> {
    let report = despite_crash(boot_and_slow_down_later)?;
    println!("{}", report.console);
    assert_eq!(report.value("asked"), Some("1"));
    for pull in ["before", "slow"] {
        let error = report.value(pull).unwrap_or_default();
        assert_tells(error, &["registry.corp is forbidden"]);
    }
    assert_eq!(report.value("waited"), Some("1"));
    assert_eq!(report.value("ran"), Some("exit 65"));
    Ok(())
}

fn boot_and_slow_down_later() -> Result<Report> {
    let scratch = Scratch::new()?;
    let document = "[registries.\"registry.corp\"]\nca-certs = \"\"\n";
    let slow = scratch.write("slow.img", encode(Magic::IMAGEPULLER, document.as_bytes())?)?;
    let drive = format!("id=slow,file={},format=raw,if=none,readonly=on", slow.display());
    let disk = "virtio-blk-pci,bus=pcie.0,addr=0x1e,drive=slow,serial=slow";
    let scenario = Scenario {
        document: None,
        arguments: ["-drive", &drive, "-device", disk].map(Into::into).into(),
        ..scenario(
            r#"
# within SECONDS COMMAND: whether the command succeeds meanwhile.
within() {
    tries=$(($1 * 10))
    shift
    until "$@"; do [ $tries -gt 0 ] || return 1; tries=$((tries - 1)); usleep 100000; done
}
# later NAME COMMAND: it goes on by itself; how it ended is in /tmp/NAME.
later() {
    name=$1
    shift
    ("$@" 2>/tmp/$name.said; echo "exit $?" >/tmp/$name.end; mv /tmp/$name.end /tmp/$name) &
}
initdata-processor
initdata-processor refresh --verbose --listen unix:/run/refresher 2>/tmp/refreshed &
imagepuller serve --listen unix:/run/puller --store /run/store --refresher unix:/run/refresher \
    --config /run/insecure-cfg/imagepuller.toml 2>/tmp/pulled &
within 60 [ -S /run/refresher ] && within 60 [ -S /run/puller ]
image=registry.corp/a@sha256:$(yes 0 | head -n 64 | tr -d '\n')
pull() { imagepuller request --socket /run/puller "$image" /run/bundle 2>&1; }
mark before "$(pull)"
mark asked "$(grep -c 'imagepuller.toml unchanged' /tmp/refreshed)"
mark waiting
# The first read after that comes at once, the next one does not.
waited() { slow=$(pull); grep -q 'not read within 5 s' /tmp/pulled; }
within 60 waited
mark slow "$slow"
mark waited "$(grep -c 'not read within 5 s' /tmp/pulled)"
settings 'wait = 0\npatience = 2\n'
later ran initdata-processor
within 60 [ -e /tmp/ran ]
mark ran "$(cat /tmp/ran)"
mark again
"#,
        )
    };
    let mut guest = Guest::boot_in(&scenario, scratch)?;
    let mut qmp = guest.qmp()?;
    let mut done = [None, None];
    let report = guest.finish(|console| {
        if done[0].is_none() && has_mark(console, "waiting") {
            done[0] = Some(qmp.throttle("slow", true));
        }
        // The kernel waits for its disks before it ends.
        if done[1].is_none() && has_mark(console, "again") {
            done[1] = Some(qmp.throttle("slow", false));
        }
    })?;
    for step in done {
        step.context("the guest did not get there")??;
    }
    Ok(report)
}

/// QEMU 7.2 once ended with SIGSEGV while a disk was plugged into the bridge, and with it a test
/// that had found nothing wrong. A hypervisor that ends so is started once more, and only once.
#[test]
fn a_hypervisor_that_crashes_is_started_once_more() -> Result<()> {
    for (crashes, starts, words) in [(1, 2, None), (9, 2, Some("SIGSEGV"))] {
        let scratch = Scratch::new()?;
        let qemu = scratch.write(
            "qemu",
            format!(
                "#!/bin/sh\necho start >>$0.starts\n\
                 [ $(wc -l <$0.starts) -gt {crashes} ] || kill -SEGV $$\n\
                 for word; do case $word in *logfile=*)\n\
                 echo @@ 1.0 done >${{word##*logfile=}};; esac; done\n"
            ),
        )?;
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755))?;
        let report = run(&Scenario { qemu, ..Scenario::bare("") });
        let log = fs::read_to_string(scratch.path().join("qemu.starts"))?;
        assert_eq!(log.lines().count(), starts);
        match (report, words) {
            (Ok(report), None) => assert!(report.is_complete()),
            (Err(error), Some(word)) => {
                let error = format!("{error:#}");
                assert_tells(&error, &["first attempt: ", "second attempt"]);
                assert_eq!(error.matches(word).count(), 2, "{error}");
            }
            (report, _) => panic!("{report:?}"),
        }
    }
    Ok(())
}

/// The largest resident set, as the kernel tells the parent.
fn assert_little_memory(report: &Report, case: &str) -> Result<()> {
    let peak: u32 = report.value(&format!("{case}-peak")).context("no peak")?.parse()?;
    assert!((100..8192).contains(&peak), "{case}: {peak} KiB");
    Ok(())
}

/// The most instructions of a run, in millions: a tenth more than the 4.8 that it takes.
const MAX_INSTRUCTIONS: f64 = 5.3;

/// Wall time says nothing on a busy machine. With a clock that counts instructions it says the same
/// everywhere: a nanosecond of the guest is one. The program says how long it was at work; the best
/// of some runs is taken.
#[test]
fn a_run_with_sixty_four_decoys_takes_few_instructions() -> Result<()> {
    let scratch = Scratch::new()?;
    let mut arguments = decoy::arguments(&scratch, 64, decoy::Bus::VirtioBlk)?;
    // Two processors that take turns in counted time hardly get on.
    let one = ["-smp", "1,sockets=1,maxcpus=1", "-icount", "shift=0"];
    arguments.extend(one.map(Into::into));
    let scenario = Scenario {
        arguments,
        ..scenario(
            r#"
for round in 1 2 3 4 5 6 7 8; do
    rm -rf /run/measured-cfg /run/.measured-cfg /run/insecure-cfg
    initdata-processor 2>/tmp/said
    mark took "$(tail -n 1 /tmp/said)"
done
"#,
        )
    };
    let report = despite_crash(|| {
        let scratch = Scratch::new()?;
        Guest::boot_in(&scenario, scratch)?.finish(|_| ())
    })?;
    let totals = report.values("took").inspect(|took| println!("{took}"));
    let totals: Option<Vec<f64>> = totals.map(total).collect();
    let totals = totals.context("a line without a time")?;
    let total = totals.into_iter().fold(f64::INFINITY, f64::min);
    println!("the least, in millions of instructions: {total:.2}");
    assert!(total.is_finite(), "no run");
    assert!(total < MAX_INSTRUCTIONS, "{total} million instructions");
    Ok(())
}

/// The milliseconds at work in what a run says last: without those in which it waits for a disk.
fn total(line: &str) -> Option<f64> {
    let (before, _) = line.split_once(" ms of them at work")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[test]
fn sixty_four_decoys_hide_neither_a_disk_nor_its_double() -> Result<()> {
    let scratch = Scratch::new()?;
    let double = encode(Magic::INITDATA, site::sample_initdata().as_bytes())?;
    let scenario = Scenario {
        disks: vec![double.to_vec()],
        arguments: decoy::arguments(&scratch, 64, decoy::Bus::Scsi)?,
        ..scenario(
            r#"
tries=0
until [ "$(ls /sys/block | grep -c '^sd')" -ge 64 ] || [ $tries -ge 400 ]; do tries=$((tries + 1)); usleep 50000; done
mark decoys "$(ls /sys/block | grep -c '^sd')"
try double
# The refusal took both nodes away.
for disk in /sys/block/vd*; do
    [ -b "/dev/${disk##*/}" ] || mknod "/dev/${disk##*/}" b $(tr : " " <"$disk/dev")
done
device disk0 >$driver/unbind
try alone
"#,
        )
    };
    let report = run(&scenario)?;
    assert_eq!(report.value("decoys"), Some("64"));
    assert_refused(&report, "double", &["carry the same magic"]);
    assert_complete(&report, "alone");
    assert_little_memory(&report, "alone")
}
