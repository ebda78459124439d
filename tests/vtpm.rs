//! A measured boot: OVMF measures firmware, kernel and command line into a TPM, and the
//! configuration disk is nowhere in it.
//!
//! This is what "unmeasured" promises: a node may change its document without any verifier's
//! reference values changing. The negative twin, another kernel parameter, shows that the
//! comparison can fail.

use anyhow::{Context, Result, ensure};
use vm_harness::{Guest, Report, Scenario, Scratch, Vtpm, despite_crash};

/// PCRs 0 to 15: firmware, boot loader and operating system. The rest can be reset by software and
/// says nothing.
const PCRS: usize = 16;

const JOB: &str = r#"
initdata-processor
mark processor "exit $?"
for file in /run/insecure-cfg/*; do
    [ ! -f "$file" ] || mark config "$(sha256sum <"$file" | cut -c1-64) $file"
done
pcr=0
while [ $pcr -lt 16 ]; do
    mark pcr "$(cat /sys/class/tpm/tpm0/pcr-sha256/$pcr)"
    pcr=$((pcr + 1))
done
"#;

/// Boots with this document and one more kernel parameter, on a TPM of its own.
fn measured(document: Option<&str>, parameter: Option<&str>) -> Result<Report> {
    despite_crash(|| measured_once(document, parameter))
}

fn measured_once(document: Option<&str>, parameter: Option<&str>) -> Result<Report> {
    let scratch = Scratch::new()?;
    let vtpm = Vtpm::start(&scratch)?;
    let scenario = Scenario {
        document: document.map(ToOwned::to_owned),
        kernel_parameters: parameter.into_iter().map(ToOwned::to_owned).collect(),
        arguments: vtpm.arguments(),
        ..Scenario::bare(JOB)
    };
    let report = Guest::boot_in(&scenario, scratch)?.finish(|_| ())?;
    ensure!(
        report.value("processor") == Some("exit 0"),
        "initdata-processor failed:\n{}",
        report.console
    );
    Ok(report)
}

/// The sha256 bank, checked to be one that somebody measured into.
fn pcrs(report: &Report) -> Result<Vec<&str>> {
    let values: Vec<&str> = report.values("pcr").collect();
    ensure!(
        values.len() == PCRS && values.iter().all(|value| value.len() == 64),
        "expected {PCRS} sha256 values:\n{}",
        report.console
    );
    let blank = "0".repeat(64);
    for measured in [0, 4, 9] {
        ensure!(values[measured] != blank, "PCR {measured} was not extended");
    }
    Ok(values)
}

/// One test, because a measured boot is a slow one, and both halves compare with the same.
#[test]
fn a_kernel_parameter_changes_a_pcr_and_the_configuration_disk_none() -> Result<()> {
    let none = measured(None, None)?;
    let expected = pcrs(&none)?;
    assert_eq!(none.value("config"), None, "{}", none.console);

    let document = "[registries.\"a.corp\"]\nusername = \"one\"\npassword = \"1\"\n";
    let report = measured(Some(document), None)?;
    let config = report.value("config").context("no configuration arrived")?;
    assert!(config.ends_with(" /run/insecure-cfg/imagepuller.toml"), "{config}");
    assert_eq!(pcrs(&report)?, expected, "a PCR depends on the disk");

    let other = measured(None, Some("configdev.other=1"))?;
    let other = pcrs(&other)?;
    let changed: Vec<usize> = (0..PCRS).filter(|&n| expected[n] != other[n]).collect();
    // The kernel's EFI stub measures its command line into 9, and IMA the sum of 0 to 9 into 10;
    // the others repeat.
    assert_eq!(changed, [9, 10]);
    Ok(())
}
