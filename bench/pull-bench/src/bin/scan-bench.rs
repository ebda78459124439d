//! What finding the disks costs in a guest with 64 decoys, against the loop of Kata's agent;
//! `hack/bench scan` calls it.
//!
//! Both programs run in one guest, in turns, so that whatever else the machine does meets both.
//! "Cold" rounds drop the kernel's caches before each run; a disk that nobody holds open has no
//! pages in the cache in a warm one either.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use config_image::{Magic, encode};
use vm_harness::decoy::Bus;
use vm_harness::{Evidence, Guest, Program, Report, Scenario, Scratch, decoy, site};

const DECOYS: usize = 64;

/// How often every program runs in each state of the caches unless the environment's `BENCH_ROUNDS`
/// says otherwise.
const ROUNDS: usize = 31;

const JOB: &str = r#"
insmod /modules/tee_fixture.ko $TEE
chmod 755 /bin/agent-loop
# Otherwise the second program would find no initdata.
echo 'accepted-disk = "keep"' >/etc/initdata-processor.toml
tries=0
until [ "$(ls /sys/block | grep -c '^[sv]d')" -ge "$DECOYS" ] || [ $tries -ge 400 ]; do tries=$((tries + 1)); usleep 50000; done
mark disks "$(ls /sys/block | wc -l)"
once() {
    [ "$1" = warm ] || echo 3 >/proc/sys/vm/drop_caches
    time -f %M -o /tmp/peak $2 2>/tmp/said
    # busybox takes the kernel's KiB for pages of 4 KiB.
    mark "$1-$2" "$(tail -n 1 /tmp/said); max rss $(($(cat /tmp/peak) / 4)) KiB"
}
round=0
while [ $round -lt "$ROUNDS" ]; do
    for state in cold warm; do
        if [ $((round % 2)) = 0 ]; then once $state initdata-processor; once $state agent-loop
        else once $state agent-loop; once $state initdata-processor; fi
    done
    round=$((round + 1))
done
"#;

/// The medians of one program's runs in one state.
struct Figures {
    total_ms: f64,
    /// KiB, the largest of all runs.
    peak_kib: f64,
}

fn main() -> Result<()> {
    let rounds = match std::env::var("BENCH_ROUNDS") {
        Ok(rounds) => rounds.parse().context("BENCH_ROUNDS is not a number")?,
        Err(_) => ROUNDS,
    };
    for (bus, name) in [(Bus::VirtioBlk, "virtio-blk"), (Bus::Scsi, "SCSI")] {
        let report = boot(rounds, bus)?;
        println!(
            "{DECOYS} {name} decoys, initdata and configuration; QEMU's CPU emulation; medians of \
            {rounds} runs, in turns"
        );
        table(&report)?;
    }
    tree(rounds)
}

/// What a run takes on this machine where the disks are files in a directory, so that hardly
/// anything but the program itself takes time.
fn tree(rounds: usize) -> Result<()> {
    let scratch = Scratch::new()?;
    let root = scratch.path();
    for folder in ["sys/block", "sys/dev/block", "dev", "etc", "proc", "run"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::write(root.join("proc/cpuinfo"), "flags : fpu\n")?;
    fs::write(root.join("proc/cmdline"), "configdev.allow_unverified_initdata=1\n")?;
    fs::write(root.join("etc/initdata-processor.toml"), "accepted-disk = \"keep\"\n")?;
    let image = encode(Magic::INITDATA, site::sample_initdata().as_bytes())?;
    for number in 0..=DECOYS {
        let (name, place) = (format!("vd{number}"), format!("devices/pci/block/vd{number}"));
        fs::create_dir_all(root.join("sys").join(&place))?;
        symlink(format!("../{place}"), root.join("sys/block").join(&name))?;
        let content: &[u8] = if number == DECOYS { &image } else { &[7; 4096] };
        fs::write(root.join("dev").join(name), content)?;
    }
    let program = Program::InitdataProcessor.path()?;
    let mut took = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let ran = Command::new(&program).arg("--root").arg(root).output()?;
        took.push(start.elapsed().as_secs_f64() * 1000.0);
        ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    took.sort_by(f64::total_cmp);
    println!("{DECOYS} files and initdata, without a guest: {:.2} ms", took[took.len() / 2]);
    Ok(())
}

fn table(report: &Report) -> Result<()> {
    println!("{:<6}{:<20}{:>10}{:>16}", "", "", "total ms", "peak memory KiB");
    for state in ["cold", "warm"] {
        let [ours, agent] = ["initdata-processor", "agent-loop"].map(|program| {
            let figures = figures(report, &format!("{state}-{program}"))?;
            println!("{state:<6}{program:<20}{:>10.2}{:>16.0}", figures.total_ms, figures.peak_kib);
            anyhow::Ok(figures)
        });
        println!("{state:<6}{:<20}{:>10.2}", "ratio", ours?.total_ms / agent?.total_ms);
    }
    println!("the last runs said:");
    for state in ["cold", "warm"] {
        for program in ["initdata-processor", "agent-loop"] {
            let said = report.values(&format!("{state}-{program}")).last();
            println!("  {state}  {}", said.unwrap_or_default());
        }
    }
    Ok(())
}

fn boot(rounds: usize, bus: Bus) -> Result<Report> {
    let scratch = Scratch::new()?;
    let initdata = site::sample_initdata();
    let scenario = Scenario {
        document: Some(
            "[registries.\"registry.corp\"]\nusername = \"a\"\npassword = \"b\"\n".into(),
        ),
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata),
        files: vec![("bin/agent-loop".into(), fs::read(Program::AgentLoop.path()?)?)],
        arguments: decoy::arguments(&scratch, DECOYS, bus)?,
        ..Scenario::bare(format!("DECOYS={DECOYS}\nROUNDS={rounds}\n{JOB}"))
    };
    Guest::boot_in(&scenario, scratch)?.finish(|_| ())
}

fn figures(report: &Report, name: &str) -> Result<Figures> {
    let lines: Vec<&str> = report.values(name).collect();
    ensure!(!lines.is_empty(), "no {name} ran:\n{}", report.console);
    let all = |before: &str| -> Result<Vec<f64>> {
        let mut values = lines
            .iter()
            .map(|line| number(line, before).with_context(|| format!("no \"{before}\" in: {line}")))
            .collect::<Result<Vec<_>>>()?;
        values.sort_by(f64::total_cmp);
        Ok(values)
    };
    let median = |values: Vec<f64>| values[values.len() / 2];
    Ok(Figures {
        total_ms: median(all("finished after ")?),
        peak_kib: all("max rss ")?.pop().unwrap_or_default(),
    })
}

/// The number that follows `before` in `line`.
fn number(line: &str, before: &str) -> Option<f64> {
    let (_, rest) = line.split_once(before)?;
    let end = rest
        .find(|character: char| !(character.is_ascii_digit() || character == '.'))
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}
