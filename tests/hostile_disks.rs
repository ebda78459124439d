//! Disks that a hostile or broken host could attach, and what has to become of each.
//!
//! One table ([`table`]), three kinds of machine: plain files in the place of disks, real loop
//! devices, and guests with virtio-blk, virtio-scsi and NVMe. Every row runs the real program, as
//! it is in a guest.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod changing;
mod device;
mod document;
mod guest;
mod gzip;
mod image;
mod loops;
mod machine;
mod refreshing;
mod row;
mod stream;
mod table;
mod verdict;

use std::fs;

use loops::Loop;
use machine::Machine;
use row::{Expected, Row};
use verdict::{Findings, compare};

/// Runs `check` on `rows` and tells all that failed.
#[track_caller]
fn check_all(rows: Vec<Row>, check: impl Fn(&Row) -> Findings) {
    let count = rows.len();
    let failures: Vec<String> = rows.iter().filter_map(|row| check(row).err()).collect();
    let failed = failures.len();
    assert!(failures.is_empty(), "{failed} of {count} rows failed\n{}", failures.join("\n"));
    println!("{count} rows");
}

#[test]
fn the_table_is_long_enough() {
    let rows = table::rows();
    assert!(rows.len() >= 40);
    assert!(rows.iter().all(|row| row.on_files() || row.on_loops()));
}

#[test]
fn plain_files() {
    let rows = table::rows().into_iter().filter(Row::on_files).collect();
    check_all(rows, |row| Machine::of_files(row).check(row, &[], "000"));
}

#[test]
fn plain_files_over_the_results_of_an_earlier_run() {
    let rows = table::rows().into_iter().filter(Row::on_files).collect();
    check_all(rows, |row| {
        let machine = Machine::of_files(row);
        machine.leave_results();
        machine.check(row, &[], "077")
    });
}

#[test]
fn privileged_loop_devices() {
    if !loops::available() {
        return;
    }
    let rows = table::rows().into_iter().filter(Row::on_loops).collect();
    check_all(rows, |row| {
        for read_only in [true, false] {
            on_loops(row, read_only).map_err(|text| format!("read-only {read_only}: {text}"))?;
        }
        Ok(())
    });
}

fn on_loops(row: &Row, read_only: bool) -> Findings {
    let machine = Machine::new();
    let mut devices = Vec::new();
    for disk in &row.disks {
        let device = Loop::attach(disk, read_only).ok_or("losetup failed")?;
        machine.show(disk, &device);
        devices.push(device);
    }
    machine.check(row, &["--include-loop"], "022")?;
    for (disk, device) in row.disks.iter().zip(&devices) {
        let same = || disk.is_unreadable() || fs::read(device.file()).unwrap() == disk.bytes;
        if device.was_written() || !same() {
            return Err(format!("{}: {} was written to", row.name, device.name()));
        }
    }
    Ok(())
}

/// Whatever stops the program, here the want of memory: until initdata is accepted the guest may
/// run nothing.
#[test]
fn a_document_that_takes_all_memory_leaves_the_guest_closed() {
    let lines: String = (0..50_000).map(|number| format!("k{number}.a.a.a.a.a = 1\n")).collect();
    let text = format!("version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n{lines}");
    let machine = Machine::new();
    let disk = table::packed(b"initdata", text.as_bytes());
    machine.files(&[disk.clone(), table::good_configuration()]);
    let output = machine.program(&[], "022", 24 << 20);
    assert!(!output.status.success(), "{}", output.status);
    let refused = Expected::refused(&["failed to "]);
    let mut insecure = machine::files(&machine.path("run/insecure-cfg"));
    verdict::take_note(&refused, &mut insecure).unwrap();
    compare(&refused, &insecure).unwrap();
    compare(&refused, &machine::files(&machine.path("run/measured-cfg"))).unwrap();

    // With memory enough it is refused as well; and nothing of the first run is left.
    fs::remove_dir_all(machine.path("dev/.initdata")).unwrap();
    fs::write(machine.path("dev/vdaaa"), &disk.bytes).unwrap();
    let results = machine.results(&[], "022", 2 << 30).unwrap();
    assert_eq!(results.exit_code, Some(65));
    compare(&refused, &results.measured).unwrap();
}
