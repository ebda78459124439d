//! What the host announced, as the guest's kernel tells it: the report ioctls of both platforms on
//! Linux 6.12, with a test module in the place of the firmware behind them.
//!
//! One guest runs `initdata-processor` once for each row of a table, with other arguments of the
//! module. The kernel parameter that accepts unverified initdata is set all the time, so that a TEE
//! that is not recognised as one would show as a success.

mod table;

use anyhow::Result;
use table::Expected::{Refused, Unverified, Verified};
use table::{ALGORITHMS, Table, almost, announced, hostdata};

/// Each platform with each algorithm; and whatever does not fit together is refused, with both
/// sides named.
#[test]
fn each_platform_with_each_algorithm_contradictions_and_lies() -> Result<()> {
    let mut table = Table::new();
    table.row("no TEE", "-", Unverified);
    for (platform, size) in [("snp", 32), ("tdx", 48)] {
        for algorithm in ALGORITHMS {
            let right = format!("platform={platform} {}", hostdata(&announced(algorithm, size)));
            let wrong = format!("platform={platform} {}", hostdata(&almost(algorithm, size)));
            let name = format!("{platform} {algorithm}");
            table.row_with(algorithm, &name, &right, Verified);
            let refused = Refused(&["refused", "digest"]);
            table.row_with(algorithm, &format!("{name} mismatch"), &wrong, refused);
        }
    }

    // A driver that is missing.
    table.row(
        "snp without driver",
        "platform=snp device=0",
        Refused(&["sev-guest tells of SNP", "/dev/sev-guest does not exist", "load the guest"]),
    );
    table.row(
        "tdx without driver",
        "platform=tdx device=0",
        Refused(&[
            "tdx_guest in /proc/cpuinfo tells of TDX",
            "/dev/tdx_guest does not exist",
            "load the guest",
        ]),
    );

    // A driver of something else.
    let snp = &format!("platform=snp {}", hostdata(&announced("sha256", 32)));
    table.row(
        "snp device on tdx",
        &format!("{snp} sign=tdx"),
        Refused(&["tells of TDX", "/dev/sev-guest is the driver of SNP"]),
    );
    table.shell("mknod /dev/tdx_guest c 1 3");
    table.row(
        "two devices",
        snp,
        Refused(&["tells of SNP", "/dev/tdx_guest is the driver of TDX"]),
    );
    table.shell("rm /dev/tdx_guest");

    // A driver of nothing. The kernel parameter would accept any document if this counted as no
    // TEE.
    let no_sign: &[&str] =
        &["no sign of a TEE", "/sys/devices/platform/sev-guest", "/proc/cpuinfo"];
    table.row("device without sign", &format!("{snp} sign=none"), Refused(no_sign));

    // Two signs: the second is a flag that only the first processor's line shows.
    table.shell(
        "sed 's/^flags\\t*:/& tdx_guest/' /proc/cpuinfo >/scratch/cpuinfo && mount --bind \
    /scratch/cpuinfo /proc/cpuinfo",
    );
    table.row("two signs", snp, Refused(&["tells of SNP", "tells of TDX"]));
    table.shell("umount /proc/cpuinfo");

    // A device that lies.
    for (platform, lie, words) in [
        ("snp", "fail", &["SNP_GET_REPORT", "VMM error 0x2, firmware error 0x16"][..]),
        ("snp", "status", &["expected status 0, found 0x16"]),
        ("snp", "size", &["expected 1184 bytes, found 1183"]),
        ("snp", "old", &["expected version 2 or later, found 1"]),
        ("snp", "data", &["expected the data of our request"]),
        ("tdx", "fail", &["TDX_CMD_GET_REPORT0"]),
        ("tdx", "type", &["expected type 0x81, subtype 0, found 0x0"]),
        ("tdx", "data", &["expected the data of our request"]),
    ] {
        let arguments = format!("{} platform={platform} lie={lie}", &snp["platform=snp ".len()..]);
        table.row(&format!("{platform} device lie {lie}"), &arguments, Refused(words));
    }
    table.check()
}
