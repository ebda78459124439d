//! The disk in a real VM: QEMU's vhost-user front end and Linux's driver.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code outside of test functions")]

use crate::support;

use foreign_text::hex;
use support::vm::{Guest, SHARED, Shape, marked};
use support::{Disk, image};

/// No whole number of pages, and more than one request.
const BYTES: usize = 300 * 512;

const READ_ALL: &str = r#"
mark size "$(cat /sys/class/block/vda/size)"
mark ro "$(cat /sys/class/block/vda/ro)"
mark serial "$(cat /sys/class/block/vda/serial)"
mark features "$(cat /sys/class/block/vda/device/features)"
hexdump -v -e '1/1 "%02x"' /dev/vda >/content
mark content "$(cat /content)"
"#;

const WRITE: &str = r#"
dd if=/dev/zero of=/dev/vda bs=512 count=1 conv=fsync && mark written plainly
blockdev --setrw /dev/vda
dd if=/dev/zero of=/dev/vda bs=512 count=1 conv=fsync && mark written forcibly
echo 3 >/proc/sys/vm/drop_caches
hexdump -v -e '1/1 "%02x"' /dev/vda | cmp - /content && mark unchanged yes
"#;

/// What every guest that can read must see.
fn check_content(console: &str) {
    assert_eq!(marked(console, "size"), [(BYTES / 512).to_string()]);
    assert_eq!(marked(console, "ro"), ["1"]);
    assert_eq!(marked(console, "serial"), ["imagepuller"]);
    let expected = hex::encode(&image(BYTES));
    assert!(marked(console, "content") == [expected], "{console}");
}

#[test]
fn a_guest_reads_the_exact_bytes_and_cannot_write() {
    let mut disk = Disk::serve(&image(BYTES), &[]);
    let Some(mut guest) = Guest::boot(&mut disk, SHARED, &format!("{READ_ALL}{WRITE}")) else {
        return;
    };
    let console = guest.ended();
    check_content(&console);
    assert!(marked(&console, "written").is_empty(), "{console}");
    assert_eq!(marked(&console, "unchanged"), ["yes"]);
    let output = disk.ended_after("complete: true");
    for line in [
        "info: sandboxed: no files, no network, no new programs\n",
        "info: the guest's driver took the disk\n",
        "info: the guest's first read\n",
        "info: the guest has read the whole disk\n",
    ] {
        assert!(output.contains(line), "{line:?} is missing in {output}");
    }
    assert!(!output.contains("error"), "{output}");
}

#[test]
fn a_guest_with_bounce_buffers_reads_it_too() {
    let mut disk = Disk::serve(&image(BYTES), &[]);
    let shape =
        Shape { device: ",iommu_platform=on,disable-legacy=on", kernel: "swiotlb=force", ..SHARED };
    let Some(mut guest) = Guest::boot(&mut disk, shape, READ_ALL) else {
        return;
    };
    let console = guest.ended();
    check_content(&console);
    // Bit 33, counted from the left.
    assert_eq!(marked(&console, "features")[0].as_bytes()[33], b'1');
    disk.ended_after("complete: true");
}

#[test]
fn after_one_reading_it_goes_dark() {
    // The time runs from the last reading on.
    let mut disk = Disk::serve(&image(BYTES), &["--once", "20"]);
    let job = format!(
        "hexdump -v -e '1/1 \"%02x\"' /dev/vda >/content
        echo 3 >/proc/sys/vm/drop_caches
        hexdump -v -e '1/1 \"%02x\"' /dev/vda | cmp - /content && mark again yes
        {READ_ALL}
        tries=0
        until [ -e /dark ] || [ $tries -ge 20 ]; do
            tries=$((tries + 1)); sleep 21
            dd if=/dev/vda of=/dev/null bs=512 count=1 iflag=direct 2>/dev/null || touch /dark
        done
        echo 3 >/proc/sys/vm/drop_caches
        cat /dev/vda >/second; mark exit $?
        mark second \"$(wc -c </second)\""
    );
    let Some(mut guest) = Guest::boot(&mut disk, SHARED, &job) else {
        return;
    };
    disk.wait_for("info: the disk is dark");
    let console = guest.ended();
    check_content(&console);
    // Within the time it is still there.
    assert_eq!(marked(&console, "again"), ["yes"], "{console}");
    assert_eq!(marked(&console, "exit"), ["1"], "{console}");
    assert_eq!(marked(&console, "second"), ["0"]);
    disk.ended_after("info: the disk is dark");
}

/// Why `once` is a time: Linux looks for partitions itself, and that is all of a small image.
#[test]
fn without_a_time_linux_itself_uses_up_a_small_disk() {
    let mut disk = Disk::serve(&image(512), &["--once", "0"]);
    let job = "mark early \"$(cat /dev/vda | wc -c)\"";
    let Some(mut guest) = Guest::boot(&mut disk, SHARED, job) else {
        return;
    };
    assert_eq!(marked(&guest.ended(), "early"), ["0"]);
    disk.ended_after("512 bytes, complete: true");
}

#[test]
fn a_killed_vmm_ends_it() {
    let mut disk = Disk::serve(&image(BYTES), &[]);
    let Some(mut guest) = Guest::boot(&mut disk, SHARED, &format!("{READ_ALL} sleep 600")) else {
        return;
    };
    disk.wait_for("info: the guest has read the whole disk");
    guest.wait_for("@@ content");
    guest.kill();
    disk.ended_after("complete: true");
}
