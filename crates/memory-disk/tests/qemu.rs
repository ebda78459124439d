//! The disk in a real VM: QEMU's vhost-user front end and Linux's driver.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code outside of test functions")]

use crate::support;

use std::time::Instant;

use foreign_text::hex;
use memory_disk::update::{Client, UpdateError};
use support::vm::{Guest, SHARED, Shape, marked};
use support::{Disk, LIMIT, image};

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
fn memory_that_is_not_or_cannot_be_shared_is_told_instead_of_hanging_silently() {
    for (memory, reason) in [
        ("memory-backend-memfd,share=off", "the guest's memory looks empty from here"),
        ("memory-backend-ram,share=on", "the VMM handed over no guest memory"),
    ] {
        let mut disk = Disk::serve(&image(BYTES), &["--first-request", "2"]);
        let shape = Shape { memory, ..SHARED };
        let Some(mut guest) = Guest::boot(&mut disk, shape, READ_ALL) else {
            return;
        };
        let output = disk.wait_for("error: ");
        assert!(output.contains(reason), "{output}");
        guest.kill();
        disk.ended_after("served: 0 requests");
    }
}

#[test]
fn after_one_reading_it_goes_dark() {
    // The time runs from the last reading on.
    let mut disk = Disk::serve(&image(BYTES), &["--once", "20", "--updates"]);
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
    let refused = Client::greet(disk.updates()).unwrap_err();
    assert!(matches!(refused, UpdateError::Dark), "{refused}");
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

/// Reads the whole disk around the page cache until it is another one than the last time, as often
/// as there is a line in `turns`.
const READ_UNTIL_NEW: &str = r#"
before=none
for turn in $turns; do
    while :; do
        dd if=/dev/vda of=/content bs=153600 iflag=direct 2>/dev/null
        now=$(md5sum </content)
        [ "$now" = "$before" ] || break
        usleep 50000
    done
    before=$now
    mark content "$(hexdump -v -e '1/1 "%02x"' /content)"
done
"#;

#[test]
fn a_running_guest_sees_new_content_without_its_page_cache() {
    let mut disk = Disk::serve(&image(BYTES), &["--updates"]);
    let job = format!("turns='first second third'\n{READ_UNTIL_NEW}");
    let Some(mut guest) = Guest::boot(&mut disk, SHARED, &job) else {
        return;
    };
    let mut contents = vec![image(BYTES)];
    for turn in 1..=2_u8 {
        let told = contents.len();
        let mut console = guest.wait_for("@@ content");
        while marked(&console, "content").len() < told {
            std::thread::sleep(std::time::Duration::from_millis(20));
            console = guest.wait_for("@@ content");
        }
        // The line may still be on its way; the guest has the bytes.
        let next: Vec<u8> = image(BYTES).iter().map(|byte| byte.wrapping_add(turn)).collect();
        let client = Client::greet(disk.updates()).unwrap();
        assert_eq!(client.capacity(), BYTES);
        assert!(client.send(&next).unwrap());
        contents.push(next);
    }
    let console = guest.ended();
    let expected: Vec<String> = contents.iter().map(|content| hex::encode(content)).collect();
    assert!(marked(&console, "content") == expected, "{console}");
    let updated = "info: the disk has new content\n";
    let output = disk.ended_after(updated);
    assert_eq!(output.matches(updated).count(), 2, "{output}");
    assert!(!output.contains("error"), "{output}");
}

/// One request of the guest gets all of the old content or all of the new.
#[test]
fn a_request_is_never_answered_with_both() {
    const BYTES: usize = 64 << 10;
    let contents = [vec![0xaa; BYTES], vec![0xbb; BYTES]];
    let mut disk = Disk::serve(&contents[0], &["--updates"]);
    // `tr` deletes one of the two values: what is left is nothing or everything.
    let job = format!(
        "old=0; new=0; mixed=0
        mark reading now
        for turn in $(seq 400); do
            dd if=/dev/vda of=/content bs={BYTES} count=1 iflag=direct 2>/dev/null
            case $(tr -d '\\252' </content | wc -c) in
                0) old=$((old + 1));;
                {BYTES}) new=$((new + 1));;
                *) mixed=$((mixed + 1));;
            esac
        done
        mark old $old; mark new $new; mark mixed $mixed"
    );
    let Some(mut guest) = Guest::boot(&mut disk, SHARED, &job) else {
        return;
    };
    guest.wait_for("@@ reading now");
    let mut updates = 0;
    let start = Instant::now();
    while !guest.output().contains("@@ mixed") && start.elapsed() < LIMIT {
        updates += 1;
        // Fails where the guest has just turned itself off.
        if let Ok(stream) = disk.try_updates() {
            let _ = Client::greet(stream).map(|client| client.send(&contents[updates % 2]));
        }
    }
    let console = guest.ended();
    let count = |name| marked(&console, name)[0].parse::<u32>().unwrap();
    println!("{updates} updates");
    assert_eq!(count("mixed"), 0);
    assert!(count("old") > 20 && count("new") > 20, "{console}");
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
