//! The negative twins of the main job: each ends in an error that tells its reader what to do, and
//! never in a mounted root file system.

use std::fs;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use config_image::{Magic, encode};
use end_to_end::{assert_no_secret, assert_tells, refusal, run, site};
use test_http::pki::Authority;
use vm_harness::site::sample_initdata;
use vm_harness::{Evidence, Report, Scenario, Site};

#[test]
fn wrong_password() -> Result<()> {
    let site = site()?;
    let wrong = "not-the-password";
    let report = run(&Scenario {
        document: Some(Site::document_with(wrong, site.authority.certificate())),
        ..site.scenario()
    })?;
    let error = refusal(&report)?;
    assert_tells(&error, &["registry.corp", "401", "password"]);
    assert!(!report.console.contains(wrong) && !report.console.contains(&Site::auth(wrong)));
    Ok(())
}

#[test]
fn wrong_certificate_authority() -> Result<()> {
    let site = site()?;
    let other = Authority::new("some other CA")?;
    let requests_before = site.registry.requests();
    assert!(requests_before > 0, "the push shows in the registry's log");
    let report = run(&Scenario {
        document: Some(Site::document_with(&site.password, other.certificate())),
        ..site.scenario()
    })?;
    let error = refusal(&report)?;
    assert_tells(&error, &["registry.corp", "certificate", "ca-certs"]);
    assert_no_secret(&site, &report.console);
    assert_eq!(
        site.registry.requests(),
        requests_before,
        "nothing is asked of a server that cannot prove its name"
    );
    Ok(())
}

#[test]
fn no_configuration_disk() -> Result<()> {
    let site = site()?;
    let report = run(&Scenario {
        document: None,
        ..site.scenario()
    })?;
    let error = refusal(&report)?;
    assert_tells(&error, &["registry.corp", "no configuration"]);
    assert!(
        !report
            .values("config")
            .any(|line| line.contains("/run/insecure-cfg/"))
    );
    Ok(())
}

#[test]
fn one_flipped_byte_in_a_layer() -> Result<()> {
    let site = site()?;
    // The registry serves the file as it stands on its disk.
    let layer = site.layout.layers.last().context("the image has layers")?;
    let blob = fs::File::options()
        .read(true)
        .write(true)
        .open(site.registry.blob(layer))?;
    let middle = blob.metadata()?.len() / 2;
    let mut byte = [0];
    blob.read_exact_at(&mut byte, middle)?;
    blob.write_all_at(&[byte[0] ^ 1], middle)?;

    let report = run(&site.scenario())?;
    let error = refusal(&report)?;
    assert_tells(&error, &["team/app", layer.as_str()]);
    assert_no_secret(&site, &report.console);
    Ok(())
}

#[test]
fn a_reference_without_digest() -> Result<()> {
    let site = site()?;
    let report = run(&Scenario {
        image: format!("{}:1", site.repository()),
        ..site.scenario()
    })?;
    assert_tells(&refusal(&report)?, &["team/app:1", "digest", "@sha256:"]);
    Ok(())
}

/// The policy that denies everything is in place and says why.
fn assert_denies(report: &Report, words: &[&str]) -> Result<()> {
    // Should anybody ask the puller all the same, it has no configuration and says why.
    assert_tells(&refusal(report)?, words);
    let policy: Vec<&str> = report.values("policy").collect();
    let policy = policy.join("\n");
    assert_tells(
        &policy,
        &[
            "package agent_policy",
            "default CreateContainerRequest := false",
        ],
    );
    assert_tells(&policy, words);
    assert!(!policy.contains(":= true"), "{policy}");
    let written: Vec<&str> = report
        .values("config")
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
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
fn initdata_that_does_not_match_the_evidence() -> Result<()> {
    let site = site()?;
    let other = sample_initdata().replace("token_configs", "token_config");
    for evidence in [Evidence::snp(&other), Evidence::tdx(&other)] {
        let report = run(&Scenario {
            evidence,
            ..site.scenario()
        })?;
        assert_denies(&report, &["initdata", "digest"])?;
    }
    Ok(())
}

#[test]
fn no_tee_and_no_permission_to_go_without() -> Result<()> {
    let site = site()?;
    let report = run(&Scenario {
        evidence: Evidence::None,
        ..site.scenario()
    })?;
    assert_denies(&report, &["configdev.allow_unverified_initdata=1"])
}

#[test]
fn a_tee_is_not_overruled_by_the_kernel_parameter() -> Result<()> {
    let site = site()?;
    let report = run(&Scenario {
        evidence: Evidence::Snp([7; 32]),
        kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
        ..site.scenario()
    })?;
    assert_denies(&report, &["initdata", "digest"])
}

#[test]
fn announced_initdata_that_the_host_left_out() -> Result<()> {
    let site = site()?;
    let report = run(&Scenario {
        initdata: None,
        ..site.scenario()
    })?;
    assert_denies(&report, &["initdata"])
}

#[test]
fn two_configuration_disks() -> Result<()> {
    let site = site()?;
    let second = encode(Magic::IMAGEPULLER, site.document().as_bytes())?;
    let report = run(&Scenario {
        disks: vec![second.to_vec()],
        ..site.scenario()
    })?;
    assert_tells(&refusal(&report)?, &["imgpullr", "same magic"]);
    // Measured configuration does not suffer from it.
    assert!(
        report
            .values("policy")
            .any(|line| line.contains("AllowRequestsFailingPolicy := true"))
    );
    assert!(
        !report
            .values("config")
            .any(|line| line.ends_with("/imagepuller.toml"))
    );
    Ok(())
}
