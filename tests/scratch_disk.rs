//! Images on a disk of the host that the guest encrypts and authenticates.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod host;
mod tampering;

use anyhow::{Context, Result};
use end_to_end::{assert_tells, scratch_settings, site};
use host::{DiskFile, Steps, scenario};
use sha2::{Digest, Sha256};
use tampering::{Host, SECTORS, STEPS};
use vm_harness::archive::Tar;
use vm_harness::layout::{Compression, Layout, of_archives};
use vm_harness::{Guest, Report, Scenario, Site, despite_crash};

const MIB: usize = 1 << 20;

/// `length` bytes that no other `number` has, quick to compress.
fn content(number: usize, length: usize) -> Vec<u8> {
    let mut block = Sha256::digest(number.to_string()).repeat(512);
    block[..8].copy_from_slice(&number.to_le_bytes());
    block.into_iter().cycle().take(length).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An image of as many layers as `files` has lists, with a shell in the lowest.
fn push(site: &Site, name: &str, files: &[Vec<(String, Vec<u8>)>]) -> Result<Layout> {
    let mut archives = Vec::new();
    for (number, files) in files.iter().enumerate() {
        let mut tar = Tar::default();
        if number == 0 {
            let shell = std::fs::read("/bin/busybox")?;
            tar = tar
                .directory("bin")
                .file_with("bin/sh", &shell, |header| header.set_mode(0o755))
                .file("bin/motd", "it runs\n");
        }
        for (name, content) in files {
            tar = tar.file(name, content);
        }
        archives.push((tar.bytes(), Compression::Zstd));
    }
    let layout = of_archives(&site.scratch().path().join(name), archives)?;
    let pushed = site
        .registry
        .push(site.scratch(), &layout.path, &format!("team/{name}"));
    pushed.map(|()| layout)
}

fn image(site: &Site, name: &str, layout: &Layout) -> String {
    let port = site.registry.port();
    format!("registry.corp:{port}/team/{name}@{}", layout.manifest)
}

/// Boots a guest whose job asks the host for steps, which `step` takes.
fn run(scenario: &Scenario, mut step: impl FnMut(&str, &DiskFile) -> Result<()>) -> Result<Report> {
    despite_crash(|| {
        let steps = Steps::listen()?;
        let scenario = steps.told_to(scenario);
        let guest = Guest::boot(&scenario)?;
        let pid = guest.id();
        let mut taken = 0;
        let report = guest.finish(|console| {
            let asked = console.matches("@@step ").count();
            if asked > taken {
                taken = asked;
                steps.take(|name| step(name, &DiskFile::of(pid)?)).unwrap();
            }
        })?;
        println!(
            "from power-on to the end: {:.0} s",
            report.elapsed.as_secs_f64()
        );
        Ok(report)
    })
}

const BIG: &str = r#"
serve --layers-at-once 4
step sparse
pull big "$IMAGE"
sync; echo 3 >/proc/sys/vm/drop_caches
cd /run/big/rootfs
mark bytes "$(cat ?-* | wc -c)"
for file in *-0; do mark file "$(sha256sum "$file")"; done
mark run "$(chroot . /bin/sh -c 'read -r line <bin/motd; echo "$line"')"
cd /
mark aead "$(dmesg | grep -c 'AEAD ERROR')"
mark memory "$(grep VmHWM /proc/$puller/status | tr -s '\t ' ' ') of $(grep MemTotal /proc/meminfo)"
mark table "$(dmsetup table imagepuller-scratch | cut -d' ' -f3,4,10-)"
mark key "$(grep -c . /proc/keys) keys, $(ls /run | grep -c hdr) headers"
kill $puller; wait $puller

# What the disk costs: one image to memory, to a plain disk, and to the scratch disk once more.
mkdir /run/tmpfs /run/plain
mount -t tmpfs -o size=80% tmpfs /run/tmpfs
plain=$(plain_disk); mkfs.xfs -q -f $plain && mount -t xfs $plain /run/plain
for place in tmpfs plain scratch; do
    case $place in scratch) store=/run/imagepuller ;; *) store=/run/$place/store ;; esac
    imagepuller serve --listen unix:/run/$place.socket --store $store \
        --config /etc/doc.toml 2>>/run/log &
    until [ -S /run/$place.socket ]; do usleep 10000; done
    begun=$(cut -d' ' -f1 /proc/uptime)
    imagepuller request --socket /run/$place.socket "$SMALL" /run/small-$place >/dev/null
    sync
    mounts=$(grep -c small-$place/rootfs /proc/mounts)
    mark cost "$place $mounts $begun $(cut -d' ' -f1 /proc/uptime)"
done
"#;

/// A guest with 512 MiB runs an image of 640 MiB, whose four layers are unpacked at the same time.
/// Public reports say that authenticated volumes fail then: on ext4 with lazy inode tables they do.
#[test]
fn an_image_larger_than_memory_is_pulled_and_run() -> Result<()> {
    let site = site()?;
    let layer = |layer: usize| -> Vec<(String, Vec<u8>)> {
        let file = |file: usize| {
            (
                format!("{layer}-{file}"),
                content(layer * 5 + file, 32 * MIB),
            )
        };
        (0..5).map(file).collect()
    };
    let layers: Vec<_> = (0..4).map(layer).collect();
    let big = push(&site, "big", &layers)?;
    let small: Vec<_> = (0..400)
        .map(|n| (format!("s{n}"), content(n, 96 << 10)))
        .collect();
    let small = push(&site, "small", &[small])?;
    let mut scenario = scenario(&site, "8G", BIG)?;
    scenario.image = image(&site, "big", &big);
    let name = image(&site, "small", &small);
    scenario.files.push(("job/small".to_owned(), name.into()));
    let plain = site.scratch().path().join("plain");
    std::fs::File::create(&plain)?.set_len(1 << 30)?;
    scenario.arguments = host::plain_disk(&plain);
    let report = run(&scenario, |_, disk| {
        let (size, used) = disk.size_and_use()?;
        println!(
            "the host's file: {} MiB, {} MiB used",
            size >> 20,
            used >> 20
        );
        assert!(
            size == 8 << 30 && (1 << 20..256 << 20).contains(&used),
            "{used} bytes used"
        );
        Ok(())
    })?;
    assert_eq!(
        report.value("pull-big"),
        Some("exit 0"),
        "{}",
        report.console
    );
    let mut expected: Vec<String> = layers
        .iter()
        .map(|layer| &layer[0])
        .map(|(name, content)| format!("{}  {name}", hex(&Sha256::digest(content))))
        .collect();
    expected.sort_by_key(|line| line[66..].to_owned());
    assert_eq!(report.values("file").collect::<Vec<_>>(), expected);
    assert_eq!(report.value("run"), Some("it runs"));
    assert_eq!(
        report.value("bytes"),
        Some((640 * MIB).to_string().as_str())
    );
    assert_eq!(report.value("aead"), Some("0"), "{}", report.console);
    let table = report.value("table").context("no table")?;
    assert_tells(
        table,
        &[
            "crypt capi:authenc(hmac(sha256),xts(aes))-plain64",
            "integrity:32:aead",
        ],
    );
    assert_eq!(report.values("cost").count(), 3, "{}", report.console);
    for name in ["booted", "serving", "pull-big"] {
        println!("{name}: {:?} s", report.uptime_secs(name));
    }
    for value in report.values("memory").chain(report.values("cost")) {
        println!("{value}");
    }
    Ok(())
}

const TAMPERED: &str = r#"
serve
kill $puller; wait $puller; umount /run/imagepuller
volume=/dev/mapper/imagepuller-scratch
# As after a long time: nothing is in the guest's memory, tags neither.
forget() {
    sync; echo 3 >/proc/sys/vm/drop_caches
    table=$(dmsetup table imagepuller-scratch_dif)
    dmsetup suspend imagepuller-scratch
    dmsetup load imagepuller-scratch_dif --table "$table" && dmsetup resume imagepuller-scratch_dif
    dmsetup resume imagepuller-scratch
}
for content in old new; do
    cat /job/$content.* | dd of=$volume bs=4096 conv=fsync 2>/dev/null; forget; step remember
done
for what in $TAMPERING; do
    step $what; forget
    at=0 old=0 new=0 error=0 other=0
    for part in /job/new.*; do
        dd if=$volume of=/tmp/read bs=4096 skip=$at count=1 2>/dev/null || : >/tmp/read
        if [ ! -s /tmp/read ]; then error=$((error + 1))
        elif cmp -s /tmp/read $part; then new=$((new + 1))
        elif cmp -s /tmp/read /job/old.${part#/job/new.}; then old=$((old + 1))
        else other=$((other + 1)); fi
        at=$((at + 1))
    done
    mark $what "old $old new $new error $error other $other"
done
step fill
dd if=/dev/zero of=$volume bs=1M seek=8 count=16 conv=fsync 2>/dev/null
mark full "exit $?"
"#;

/// What the host changes is an error for who reads it. What it can do is show a sector as it was
/// before in the same boot, with its tag. A node without room makes writes fail, and stops no VM.
#[test]
fn privileged_the_host_changes_sectors_behind_the_guests_back() -> Result<()> {
    if !vm_harness::is_root("the host changes sectors") {
        return Ok(());
    }
    let site = site()?;
    let node = host::SmallNode::new(&site, 700 << 20)?;
    let names = STEPS.map(|(name, _)| name).join(" ");
    let mut scenario = scenario(&site, "512M", &format!("TAMPERING='{names}'\n{TAMPERED}"))?;
    scenario.settings = scratch_settings(site.scratch().path(), node.path(), "512M");
    for number in 0..SECTORS {
        for (name, number_of_all) in [("old", number), ("new", number + SECTORS)] {
            let content = content(number_of_all, host::SECTOR);
            scenario
                .files
                .push((format!("job/{name}.{number:02}"), content));
        }
    }
    let host = std::cell::RefCell::new(Host::default());
    let report = run(&scenario, |name, disk| match name {
        "fill" => node.fill(),
        _ => host.borrow_mut().step(name, disk),
    })?;
    for (name, expected) in STEPS {
        println!("{name}: {:?}", report.value(name));
        assert_eq!(
            report.value(name),
            Some(expected),
            "{name}: {}",
            report.console
        );
    }
    assert_eq!(report.value("full"), Some("exit 1"), "{}", report.console);
    Ok(())
}

const REFUSED: &str = r#"
other=$(plain_disk); own=$(scratch_disk)
again() {
    kill $puller; wait $puller; rm -f /run/s.socket
    [ "$1" = same ] || rm -f /run/imagepuller.scratch
    serve
}
printf kcscrtch | dd of=$other 2>/dev/null
serve; pull two "$SMALL"
printf xxxxxxxx | dd of=$other 2>/dev/null
again same; pull same "$SMALL"
printf x | dd of=$own bs=1 seek=5000 conv=notrunc 2>/dev/null
again; pull used "$SMALL"
printf '\000' | dd of=$own bs=1 seek=5000 conv=notrunc 2>/dev/null
again; mib=440
until fallocate -l ${mib}M /run/imagepuller/full 2>/dev/null; do mib=$((mib - 1)); done
pull full "$SMALL"
rm /run/imagepuller/full
pull fits "$SMALL"
again same; pull restarted "$SMALL"
device=$(readlink -f /sys/block/$(basename $own)/device)
basename $device >/sys/bus/virtio/drivers/virtio_blk/unbind
echo 3 >/proc/sys/vm/drop_caches
# Until something is written out the file system does not know that its disk is gone.
touch /run/imagepuller/written; sync
pull gone "$SMALL"
mark alive "$(kill -0 $puller && echo yes)"
umount -l /run/imagepuller
again same; pull after "$SMALL"
"#;

#[test]
fn a_disk_that_cannot_be_used_is_said_at_each_pull() -> Result<()> {
    let site = site()?;
    let small = push(
        &site,
        "small",
        &[vec![("file".to_owned(), content(0, 4 * MIB))]],
    )?;
    let mut scenario = scenario(&site, "512M", REFUSED)?;
    let name = image(&site, "small", &small);
    scenario.files.push(("job/small".to_owned(), name.into()));
    let plain = site.scratch().path().join("plain");
    std::fs::File::create(&plain)?.set_len(64 << 20)?;
    scenario.arguments = host::plain_disk(&plain);
    let report = run(&scenario, |_, _| Ok(()))?;
    for (name, exit, words) in [
        (
            "two",
            70,
            "several disks have the magic of a scratch disk: vd",
        ),
        ("same", 70, "in this boot it failed already: several disks"),
        (
            "used",
            70,
            "has the magic of a scratch disk and is not empty",
        ),
        ("full", 69, "but the image store /run/imagepuller has"),
        ("fits", 0, ""),
        ("restarted", 0, ""),
        ("gone", 70, "/run/imagepuller"),
        ("after", 70, "is not mounted any more; start the guest anew"),
    ] {
        let exit = format!("exit {exit}");
        let error = report.value(&format!("error-{name}")).unwrap_or_default();
        println!("{name}: {error}");
        let end = report.value(&format!("pull-{name}"));
        assert_eq!(end, Some(exit.as_str()), "{}", report.console);
        assert!(error.contains(words), "{name}: {error}: {}", report.console);
    }
    assert_eq!(report.value("alive"), Some("yes"));
    Ok(())
}
