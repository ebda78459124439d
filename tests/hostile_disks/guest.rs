//! A selection of the rows in real guests, one boot for each kind of disk.
//!
//! All disks are attached from the start; the guest's job lets the kernel see those of one row at a
//! time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use vm_harness::fixture::Fixture;
use vm_harness::{Report, Scenario, Scratch, run};

use crate::hostile_disks::row::{Disk, Expected, Files, Row, Shape};
use crate::hostile_disks::table::rows;
use crate::hostile_disks::verdict::{Findings, check_log, compare, take_note, tells};

/// What the disks are to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bus {
    VirtioBlk,
    VirtioScsi,
    Nvme,
    /// Loop devices over device-mapper devices over files in the guest.
    DeviceMapper,
}

impl Bus {
    /// Whether `row` is one for it.
    fn runs(self, row: &Row) -> bool {
        let unreadable = row.disks.iter().any(Disk::is_unreadable);
        row.in_guests
            && match self {
                Self::VirtioBlk | Self::VirtioScsi => true,
                // QEMU's NVMe tells of each failed read on its own standard error, which the
                // harness takes for a fault.
                Self::Nvme => !unreadable,
                // Only about that; and one row shows that its disks can be seen at all.
                Self::DeviceMapper => unreadable || row.name == "both good",
            }
    }

    /// The shell functions that show and hide a disk.
    fn script(self) -> &'static str {
        match self {
            Self::VirtioBlk => include_str!("guest/virtio-blk"),
            Self::VirtioScsi => include_str!("guest/virtio-scsi"),
            Self::Nvme => include_str!("guest/nvme"),
            Self::DeviceMapper => include_str!("guest/device-mapper"),
        }
    }

    /// QEMU's device number `number` with `node` behind it. On the bridge, eight to a slot: the
    /// root bus has too few.
    fn device(self, number: usize) -> String {
        let slot =
            format!("bus=pci-bridge-0,addr={:#x}.{},multifunction=on", 1 + number / 8, number % 8);
        match self {
            Self::VirtioBlk => format!(
                "virtio-blk-pci,drive=disk{number},serial=disk{number},num-queues=1,\
                 disable-legacy=on,{slot}"
            ),
            Self::VirtioScsi => format!("scsi-hd,drive=disk{number},bus=scsi0.0,scsi-id={number}"),
            Self::Nvme => {
                format!("nvme,drive=disk{number},serial=disk{number},max_ioqpairs=1,{slot}")
            }
            Self::DeviceMapper => String::new(),
        }
    }
}

#[test]
fn virtio_blk() {
    selection(Bus::VirtioBlk);
}

#[test]
fn virtio_scsi() {
    selection(Bus::VirtioScsi);
}

#[test]
fn nvme() {
    selection(Bus::Nvme);
}

#[test]
fn device_mapper() {
    selection(Bus::DeviceMapper);
}

/// Boots the guest and compares what it reports with the table.
fn selection(bus: Bus) {
    let rows: Vec<Row> = rows().into_iter().filter(|row| bus.runs(row)).collect();
    let disks: BTreeSet<&Disk> = rows.iter().flat_map(|row| &row.disks).collect();
    let disks: Vec<&Disk> = disks.into_iter().collect();
    let scratch = Scratch::new().unwrap();
    let mut scenario = Scenario::bare(include_str!("guest/job"));
    scenario.kernel_parameters = vec!["configdev.allow_unverified_initdata=1".to_owned()];
    scenario.files = vec![
        ("job/bus".to_owned(), bus.script().into()),
        ("job/rows".to_owned(), numbered(&rows, &disks).into()),
        ("job/vanishing".to_owned(), vanishing(bus, &rows, &disks).into()),
    ];
    let mut written = Vec::new();
    if bus == Bus::DeviceMapper {
        scenario.files.extend(mapped(&disks));
    } else {
        for (number, disk) in disks.iter().enumerate() {
            let file = scratch.write(&format!("hostile{number}.img"), &disk.bytes).unwrap();
            let options = blockdev(number, disk, &file);
            for argument in ["-blockdev", &options, "-device", &bus.device(number)] {
                scenario.arguments.push(argument.into());
            }
            written.push((file, &disk.bytes));
        }
    }
    let report = run(&scenario).unwrap();
    let failures: Vec<String> = rows
        .iter()
        .enumerate()
        .filter_map(|(number, row)| outcome(&report, number, row).err())
        .collect();
    assert!(
        failures.is_empty(),
        "{bus:?}: {} of {} rows failed\n{}",
        failures.len(),
        rows.len(),
        failures.join("\n")
    );
    for outcome in report.values("vanished") {
        println!("{outcome}");
        check_vanished(outcome);
    }
    let vanished = report.values("vanished").count();
    assert_eq!(vanished > 0, bus != Bus::DeviceMapper);
    for (file, bytes) in written {
        assert_eq!(&fs::read(file).unwrap(), bytes, "a disk was written to");
    }
    println!("{bus:?}: {} rows, {} disks", rows.len(), disks.len());
}

/// A line for each row: its number and those of its disks.
fn numbered(rows: &[Row], disks: &[&Disk]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "{number}{}", places(row, disks));
    }
    text
}

/// The numbers of the row's disks, a blank before each.
fn places(row: &Row, disks: &[&Disk]) -> String {
    let place = |disk| disks.iter().position(|other| *other == disk).unwrap();
    let places = row.disks.iter().map(place);
    places.map(|place| format!(" {place}")).collect()
}

/// A line with the disks that are taken away while the processor is at work.
fn vanishing(bus: Bus, rows: &[Row], disks: &[&Disk]) -> String {
    let row = rows.iter().find(|row| row.name == "both good").unwrap();
    match bus {
        // A device-mapper device cannot go while there is one on top.
        Bus::DeviceMapper => "\n".to_owned(),
        _ => format!("{}\n", places(row, disks)),
    }
}

/// Disks that vanish are there, not there, or refused; the program ends, and says so in its exit
/// code.
fn check_vanished(outcome: &str) {
    let (code, files) = outcome.split_once(' ').unwrap_or((outcome, ""));
    let of = |directory: &str| {
        let names = files.split_whitespace();
        let names = names.filter_map(|name| name.strip_prefix("./")?.strip_prefix(directory));
        names.collect::<Vec<_>>().join(" ")
    };
    let measured = of("measured-cfg/");
    let insecure = of("insecure-cfg/");
    let closed = insecure == "imagepuller.error initdata.refused";
    assert_eq!(code, if closed { "65" } else { "0" }, "{outcome}");
    let possible: &[&str] =
        if closed { &["policy.rego"] } else { &["policy.rego", "aa.toml policy.rego"] };
    assert!(possible.contains(&measured.as_str()), "{outcome}");
    assert!(
        closed || ["", "imagepuller.error", "imagepuller.toml"].contains(&insecure.as_str()),
        "{outcome}"
    );
}

/// QEMU's back end; every second disk can be written to.
fn blockdev(number: usize, disk: &Disk, file: &Path) -> String {
    let read_only = if number.is_multiple_of(2) { "on" } else { "off" };
    let common = format!("driver=raw,node-name=disk{number},read-only={read_only}");
    let file = file.display();
    match disk.shape {
        Shape::UnreadableFrom(byte) => {
            let error = "file.inject-error.0";
            let sector = byte / 512;
            format!(
                "{common},file.driver=blkdebug,file.image.driver=file,file.image.filename={file},\
                 {error}.event=none,{error}.iotype=read,{error}.sector={sector},{error}.once=off"
            )
        }
        _ => format!("{common},file.driver=file,file.filename={file}"),
    }
}

/// The disks as files of the guest, with a sector before that has no magic; their device-mapper
/// tables; and what it takes to make them.
fn mapped(disks: &[&Disk]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let sectors = disk.bytes.len() as u64 / 512;
        let readable = match disk.shape {
            Shape::UnreadableFrom(byte) => byte / 512,
            _ => sectors,
        };
        let mut table = String::new();
        if readable > 0 {
            let _ = writeln!(table, "0 {readable} linear BASE 1");
        }
        if readable < sectors {
            let _ = writeln!(table, "{readable} {} error", sectors - readable);
        }
        let base = [&[0; 512][..], &disk.bytes].concat();
        files.push((format!("job/base{number}"), base));
        files.push((format!("job/table{number}"), table.into_bytes()));
    }
    let copied = modules().into_iter().chain(dmsetup());
    files.extend(copied.map(|(name, path)| (name, fs::read(path).unwrap())));
    files
}

/// The kernel's modules that no other guest needs.
fn modules() -> Vec<(String, PathBuf)> {
    let kernel = &Fixture::find().unwrap().kernel;
    let file = kernel.file_name().unwrap().to_str().unwrap();
    let release = file.strip_prefix("vmlinuz-").unwrap();
    let modules = kernel.ancestors().nth(2).unwrap().join("lib/modules");
    ["block/loop.ko", "md/dm-mod.ko"]
        .map(|name| {
            let file = name.split('/').next_back().unwrap();
            let path = modules.join(release).join("kernel/drivers").join(name);
            (format!("modules/{file}"), path)
        })
        .into()
}

/// The program and its libraries.
fn dmsetup() -> Vec<(String, PathBuf)> {
    let program = PathBuf::from("/usr/sbin/dmsetup");
    let output = Command::new("ldd").arg(&program).output().unwrap();
    assert!(output.status.success(), "dmsetup is missing: run hack/packages test");
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(|path| {
        let name = path.rsplit('/').next().unwrap();
        (format!("job/{name}"), PathBuf::from(path))
    });
    libraries.chain([("job/dmsetup".to_owned(), program.clone())]).collect()
}

/// Compares what the guest said about row `number` with the table.
fn outcome(report: &Report, number: usize, row: &Row) -> Findings {
    let prefix = format!("{number} ");
    let said = |name| {
        let values = report.values(name);
        values.filter_map(|value| value.strip_prefix(&prefix).map(str::to_owned))
    };
    let log = said("log").next().ok_or("no log")?;
    let log = unpacked(&log)?;
    let failed = |text: String| {
        let log = String::from_utf8_lossy(&log);
        format!("{}: {text}\n{log}", row.name)
    };
    let exit_code = said("exit").next().unwrap_or_default();
    if exit_code != row.exit_code().to_string() {
        return Err(failed(format!("exit code {exit_code}")));
    }
    check_log(&log).map_err(failed)?;
    tells(&String::from_utf8_lossy(&log), row).map_err(failed)?;
    let mut found = [Files::new(), Files::new()];
    for line in said("file") {
        let fields: Vec<&str> = line.split(' ').collect();
        let [mode, path, content] = fields.as_slice() else {
            return Err(failed(line));
        };
        let (place, name) = match path.split_once('/') {
            Some(("measured-cfg", name)) if *mode == "644" => (0, name),
            Some(("insecure-cfg", name)) if *mode == "600" => (1, name),
            _ => return Err(failed(format!("found {path} with mode {mode}"))),
        };
        found[place].insert(name.to_owned(), unpacked(content).map_err(failed)?);
    }
    let directories: Vec<String> = said("run").collect();
    let expected = [
        "755 .measured-cfg",
        "755 confidential-containers",
        "755 initdata-processor",
        "700 insecure-cfg",
        "755 measured-cfg",
    ];
    if directories != expected {
        return Err(failed(format!("run holds {directories:?}")));
    }
    let [measured, mut insecure] = found;
    take_note(&row.initdata, &mut insecure).map_err(failed)?;
    compare(&row.initdata, &measured).map_err(failed)?;
    compare(&row.configuration, &insecure).map_err(failed)
}

/// What the job packed: gzip, in hexadecimal.
fn unpacked(text: &str) -> Result<Vec<u8>, String> {
    let bytes: Vec<u8> = (0..text.len() / 2)
        .map(|place| u8::from_str_radix(&text[2 * place..2 * place + 2], 16))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{error} in {text}"))?;
    let mut content = Vec::new();
    GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut content)
        .map_err(|error| format!("{error} in {text}"))?;
    Ok(content)
}

#[test]
fn the_selection_has_every_kind_of_outcome() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.in_guests).collect();
    for expected in [
        |expected: &Expected| matches!(expected, Expected::Placed(_)),
        |expected: &Expected| matches!(expected, Expected::Absent),
        |expected: &Expected| matches!(expected, Expected::Refused(_)),
    ] {
        assert!(rows.iter().any(|row| expected(&row.initdata)));
        assert!(rows.iter().any(|row| expected(&row.configuration)));
    }
    // One disk cannot be shown twice.
    for row in rows {
        let different: BTreeSet<&Disk> = row.disks.iter().collect();
        assert_eq!(different.len(), row.disks.len(), "{}", row.name);
    }
}
