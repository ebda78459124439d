//! What the host announced, as the guest's kernel tells it: the real interfaces of Linux 6.12
//! (configfs-TSM, and the ioctls of both platforms), with test modules in the place of the firmware
//! behind them.
//!
//! One guest runs `initdata-processor` once for each row of a table, with other modules loaded. The
//! kernel parameter that accepts unverified initdata is set all the time, so that a TEE that is not
//! recognised as one would show as a success.

mod table;

use anyhow::Result;
use table::Expected::{Refused, Unverified, Verified};
use table::{ALGORITHMS, Table, almost, announced, hostdata};

/// SNP by its ioctl, by TSM, by either, with each algorithm; and TDX by its ioctl only.
#[test]
fn each_interface_with_each_algorithm() -> Result<()> {
    let mut table = Table::new();
    let digest: &[&str] = &["refused", "digest"];

    table.row("no TEE", "-", "-", Unverified);
    for algorithm in ALGORITHMS {
        let right = hostdata(&announced(algorithm, 32));
        let wrong = hostdata(&almost(algorithm, 32));
        let ioctl = |field: &str| format!("platform=snp {field}");
        let name = |text: &str| format!("snp {text} {algorithm}");
        table.row_with(algorithm, &name("unmounted"), &ioctl(&right), "-", Verified);
        table.row_with(
            algorithm,
            &name("unmounted mismatch"),
            &ioctl(&wrong),
            "-",
            Refused(digest),
        );
    }
    table.row(
        "snp without driver, unmounted",
        "platform=snp device=0",
        "-",
        Refused(&["SNP", "dev/sev-guest does not exist", "configfs is not mounted"]),
    );

    table.shell("insmod /modules/configfs.ko && insmod /modules/tsm.ko");
    table.shell("mount -t configfs configfs /sys/kernel/config");
    for algorithm in ALGORITHMS {
        let right = hostdata(&announced(algorithm, 32));
        let wrong = hostdata(&almost(algorithm, 32));
        let name = |text: &str| format!("{text} {algorithm}");
        let without_device = "platform=snp device=0";
        table.row_with(algorithm, &name("snp tsm"), without_device, &right, Verified);
        table.row_with(
            algorithm,
            &name("snp tsm mismatch"),
            without_device,
            &wrong,
            Refused(digest),
        );
        // Where both are, the ioctl is believed and the TSM's report not asked for.
        table.row_with(
            algorithm,
            &name("snp both"),
            &format!("platform=snp {right}"),
            &format!("lie=fail {right}"),
            Verified,
        );
        table.row_with(
            algorithm,
            &name("snp both mismatch"),
            &format!("platform=snp {wrong}"),
            &right,
            Refused(digest),
        );

        let right = hostdata(&announced(algorithm, 48));
        let wrong = hostdata(&almost(algorithm, 48));
        table.row_with(algorithm, &name("tdx"), &format!("platform=tdx {right}"), "-", Verified);
        table.row_with(
            algorithm,
            &name("tdx mismatch"),
            &format!("platform=tdx {wrong}"),
            "-",
            Refused(digest),
        );
    }
    table.check()?;
    Ok(())
}

/// Whatever does not fit together is refused, with both sides named.
#[test]
fn contradictions_and_lies() -> Result<()> {
    let mut table = Table::new();
    let field = hostdata(&announced("sha256", 32));
    let snp = &format!("platform=snp {field}");
    let tdx = &format!("platform=tdx {}", hostdata(&announced("sha256", 48)));
    let by_tsm = "platform=snp device=0";
    let with = |argument: &str| format!("{argument} {field}");

    table.shell("insmod /modules/configfs.ko && insmod /modules/tsm.ko");
    table.shell("mount -t configfs configfs /sys/kernel/config");

    // Without these lies, each of the three is good.
    table.row("good ioctl, no provider", snp, "-", Verified);
    table.row("good tsm", by_tsm, &field, Verified);
    table.row("good tdx, provider not asked", tdx, "provider=tdx_guest lie=fail", Verified);

    // A driver that is missing.
    table.row(
        "no provider",
        by_tsm,
        "-",
        Refused(&["sev-guest tells of SNP", "tsm/report has no provider", "load the guest driver"]),
    );
    table.row(
        "tdx by tsm alone",
        "platform=tdx device=0",
        "provider=tdx_guest",
        Refused(&["tdx_guest in /proc/cpuinfo tells of TDX", "/dev/tdx_guest does not exist"]),
    );

    // A driver of something else.
    let tdx_provider: &[&str] =
        &["sev-guest tells of SNP", "provider \"tdx_guest\" is the driver of TDX"];
    table.row("tdx provider", by_tsm, &with("provider=tdx_guest"), Refused(tdx_provider));
    table.row(
        "tdx provider beside the ioctl",
        snp,
        &with("provider=tdx_guest"),
        Refused(tdx_provider),
    );
    table.row(
        "snp provider on tdx",
        tdx,
        &field,
        Refused(&["tells of TDX", "provider \"sev_guest\" is the driver of SNP"]),
    );
    table.row(
        "unknown provider",
        snp,
        &with("provider=arm_cca_guest"),
        Refused(&["tells of SNP", "provider \"arm_cca_guest\"", "unknown platform"]),
    );
    table.row(
        "snp device on tdx",
        &format!("{snp} sign=tdx"),
        "-",
        Refused(&["tells of TDX", "/dev/sev-guest is the driver of SNP"]),
    );
    table.shell("mknod /dev/tdx_guest c 1 3");
    table.row(
        "two devices",
        snp,
        "-",
        Refused(&["tells of SNP", "/dev/tdx_guest is the driver of TDX"]),
    );
    table.shell("rm /dev/tdx_guest");

    // A driver of nothing. The kernel parameter would accept any document if this counted as no
    // TEE.
    let no_sign: &[&str] =
        &["no sign of a TEE", "/sys/devices/platform/sev-guest", "/proc/cpuinfo"];
    table.row("device without sign", &format!("{snp} sign=none"), "-", Refused(no_sign));
    table.row("provider without sign", "-", &field, Refused(no_sign));
    table.row("unknown provider without sign", "-", "provider=other", Refused(no_sign));

    // Two signs: the second is a flag that only the first processor's line shows.
    table.shell(
        "sed 's/^flags\\t*:/& tdx_guest/' /proc/cpuinfo >/scratch/cpuinfo && mount --bind \
    /scratch/cpuinfo /proc/cpuinfo",
    );
    table.row("two signs", snp, "-", Refused(&["tells of SNP", "tells of TDX"]));
    table.shell("umount /proc/cpuinfo");

    // A TSM that lies.
    for (lie, words) in [
        ("short", &["expected 1184 bytes, found 1183"][..]),
        ("long", &["expected 1184 bytes, found 1185"]),
        ("old", &["expected version 2 or later, found 1"]),
        ("data", &["expected the data of our request"]),
        ("generation", &["after the report was read, found generation 2"]),
        ("fail", &["failed to read the TSM report", "outblob"]),
    ] {
        let arguments = with(&format!("lie={lie}"));
        table.row(&format!("lie {lie}"), by_tsm, &arguments, Refused(words));
    }

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
        let arguments = with(&format!("platform={platform} lie={lie}"));
        table.row(&format!("{platform} device lie {lie}"), &arguments, "-", Refused(words));
    }

    // An entry that a killed run of the same number left behind goes, somebody else's stays.
    table.shell("touch /scratch/left");
    table.row("left over", by_tsm, &field, Verified);
    table.shell("rm /scratch/left");

    // Nobody can ask a TSM on a configfs that is read-only.
    table.shell("mount -o remount,ro /sys/kernel/config");
    table.row("read-only, ioctl", snp, &field, Verified);
    table.row(
        "read-only, tsm",
        by_tsm,
        &field,
        Refused(&["dev/sev-guest does not exist", "mounted read-only"]),
    );
    let report = table.check()?;
    let others: Vec<&str> = report.values("left").filter(|left| left.ends_with(" other")).collect();
    assert_eq!(others, ["left-over: entries: other"]);
    Ok(())
}
