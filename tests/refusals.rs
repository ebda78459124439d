//! The negative twins of the main job: each ends in an error that tells its reader what to do, and
//! never in a mounted root file system.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use config_image::{Magic, encode};
use end_to_end::{
    assert_no_secret, assert_tells, further_pulls, nth_refusal, refusal, run, side_by_side, site,
};
use test_http::pki::Authority;
use vm_harness::layout::{self, Compression};
use vm_harness::site::{REGISTRY_NAME, sample_initdata};
use vm_harness::{Evidence, Report, Scenario, Site};

/// Flips a byte in a file of the registry, which serves it as it stands.
fn flip(path: &Path) -> Result<()> {
    let blob = fs::File::options().read(true).write(true).open(path)?;
    let middle = blob.metadata()?.len() / 2;
    let mut byte = [0];
    blob.read_exact_at(&mut byte, middle)?;
    Ok(blob.write_all_at(&[byte[0] ^ 1], middle)?)
}

/// Five pulls in one guest: a node whose document is none, a wrong password, a wrong authority, a
/// flipped byte, no digest.
#[test]
fn what_the_node_the_registry_or_the_reference_gets_wrong() -> Result<()> {
    let site = site()?;
    let scratch = site.scratch();
    let wrong = "not-the-password";

    let other = Authority::new("some other CA")?;
    let other = Site::document_with(&site.password, other.certificate());
    let unproven = site.registry.with_prefix(scratch, &site.authority, &[REGISTRY_NAME], "/")?;
    let unproven_image =
        format!("{REGISTRY_NAME}:{}/team/app@{}", unproven.port(), site.layout.manifest);

    let folder = scratch.path().join("damaged");
    let damaged = layout::of_archives(&folder, vec![(vec![0; 1 << 16], Compression::Gzip)])?;
    site.registry.push(scratch, &damaged.path, "team/damaged")?;
    let layer = damaged.layers.last().context("the image has a layer")?;
    flip(&site.registry.blob(layer))?;
    let damaged_image =
        format!("{REGISTRY_NAME}:{}/team/damaged@{}", site.registry.port(), damaged.manifest);

    let tagged = format!("{}:1", site.repository());
    let says = "kata-configdev-qemu: sandbox 3f9c2a7d1b: failed to accept the document";
    let refused = Site::document_with(wrong, site.authority.certificate());
    let report = run(&Scenario {
        document: Some("[registry.\"registry.corp\"]\n".to_owned()),
        settings: "refuse = \"disk\"\n".to_owned(),
        says: Some(says.to_owned()),
        image: unproven_image.clone(),
        files: further_pulls(&[
            (Some(&refused), &site.image()),
            (Some(&other), &unproven_image),
            (Some(&site.document()), &damaged_image),
            (None, &tagged),
        ]),
        ..site.scenario()
    })?;

    let says = format!("nothing is pulled without it; the node says: {says}");
    assert_tells(&refusal(&report)?, &[&says, "line 1: registry: unknown key"]);
    assert_untouched_policy(&report);
    let error = nth_refusal(&report, "1")?;
    assert_tells(&error, &["registry.corp", "401", "password"]);
    assert!(!report.console.contains(wrong) && !report.console.contains(&Site::auth(wrong)));
    let error = nth_refusal(&report, "2")?;
    assert_tells(&error, &["registry.corp", "certificate", "ca-certs"]);
    assert_eq!(
        unproven.requests(),
        0,
        "neither without a document nor where a server cannot prove its name is anything asked"
    );
    let error = nth_refusal(&report, "3")?;
    assert_tells(&error, &["team/damaged", layer.as_str()]);
    let error = nth_refusal(&report, "4")?;
    assert_tells(&error, &["team/app:1", "digest", "@sha256:"]);
    assert_no_secret(&site, &report.console);
    Ok(())
}

/// Measured configuration does not suffer from what is wrong with the other.
fn assert_untouched_policy(report: &Report) {
    let rule = "AllowRequestsFailingPolicy := true";
    assert!(report.values("policy").any(|line| line.contains(rule)));
}

/// The policy that denies everything is in place and says why.
fn assert_denies(report: &Report, words: &[&str]) -> Result<()> {
    // A pull that is asked for all the same has no configuration, and its error says why.
    assert_tells(&refusal(report)?, words);
    let policy: Vec<&str> = report.values("policy").collect();
    let policy = policy.join("\n");
    assert_tells(&policy, &["package agent_policy", "default CreateContainerRequest := false"]);
    assert_tells(&policy, words);
    assert!(!policy.contains(":= true"), "{policy}");
    let written: Vec<&str> =
        report.values("config").filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(
        written,
        [
            "/run/measured-cfg/policy.rego",
            "/run/insecure-cfg/imagepuller.error",
            "/run/insecure-cfg/initdata.refused"
        ]
    );
    Ok(())
}

#[test]
fn initdata_that_is_not_what_the_evidence_says() -> Result<()> {
    let site = site()?;
    let other = sample_initdata().replace("token_configs", "token_config");
    let with = |evidence: Evidence| Scenario { evidence, ..site.scenario() };
    let digest: &[&str] = &["initdata", "digest"];
    let cases = [
        ("SNP and another document", (with(Evidence::snp(&other)), digest)),
        ("TDX and another document", (with(Evidence::tdx(&other)), digest)),
        (
            "no TEE and no permission to go without",
            (with(Evidence::None), &["configdev.allow_unverified_initdata=1"]),
        ),
        (
            "a TEE is not overruled by the kernel parameter",
            (
                Scenario {
                    kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
                    ..with(Evidence::Snp([7; 32]))
                },
                digest,
            ),
        ),
        (
            "announced initdata that the host left out",
            (Scenario { initdata: None, ..site.scenario() }, &["initdata"]),
        ),
    ];
    side_by_side(&cases, |(scenario, words)| assert_denies(&run(scenario)?, words))
}

#[test]
fn no_configuration_disk_and_two_of_them() -> Result<()> {
    let site = site()?;
    let second = encode(Magic::IMAGEPULLER, site.document().as_bytes())?;
    let none = Scenario { document: None, ..site.scenario() };
    let two = Scenario { disks: vec![second.to_vec()], ..site.scenario() };
    let cases = [
        ("none", (none, ["registry.corp", "no configuration"])),
        ("two", (two, ["imgpullr", "same magic"])),
    ];
    side_by_side(&cases, |(scenario, words)| {
        let report = run(scenario)?;
        assert_tells(&refusal(&report)?, words);
        let has_document = |line: &str| line.ends_with("/imagepuller.toml");
        assert!(!report.values("config").any(has_document));
        assert_untouched_policy(&report);
        Ok(())
    })
}
