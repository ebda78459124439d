//! A guest that runs what its owner's image policy lets run: policy and keys come from the CDH,
//! signatures from the registry.
//!
//! Which signatures fulfil which policy, and what hosts, mirrors and registries try, is proven
//! without a VM in the puller's own tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use anyhow::Result;
use confidential_fixtures::Vault;
use confidential_fixtures::encrypted::{Key, KeyKind};
use confidential_fixtures::signed::{SimpleSignature, signature_layout, signature_tag};
use end_to_end::{HUB, assert_tells, further_pulls, hub_of, nth_refusal, run};
use serde_json::json;
use vm_harness::archive::Tar;
use vm_harness::layout::{Compression, Layout, of_archives};
use vm_harness::site::{REGISTRY_NAME, sample_initdata};
use vm_harness::{Evidence, Program, Scenario, Site, demo};

/// Signs an image as that of a repository, and puts both there.
fn sign(site: &Site, image: &Layout, key: &Key, repository: &str) -> Result<()> {
    let (scratch, registry) = (site.scratch(), &site.registry);
    registry.push(scratch, &image.path, repository)?;
    let digest = &image.manifest;
    let name = format!("{REGISTRY_NAME}:{}/{repository}", registry.port());
    let signature = SimpleSignature::new(key, digest, &name)?;
    let directory = scratch.path().join(repository.replace('/', "-"));
    let layout = signature_layout(&directory, &[signature])?;
    let tag = format!("{repository}:{}", signature_tag(digest));
    registry.push_as(scratch, &layout, &tag)
}

#[test]
fn a_guest_runs_what_its_owner_lets_run() -> Result<()> {
    let site = end_to_end::site()?;
    let scratch = site.scratch();
    let team = Key::generate(scratch, "team", KeyKind::P256)?;
    let other = Key::generate(scratch, "other", KeyKind::Rsa2048)?;
    sign(&site, &site.layout, &team, "team/app")?;
    sign(&site, &site.layout, &team, "team/tool")?;
    let image = |content: &str| {
        let layer = Tar::default().file("content", content).bytes();
        of_archives(&scratch.path().join(content), vec![(layer, Compression::Gzip)])
    };
    let (wrong, unsigned) = (image("wrong")?, image("unsigned")?);
    sign(&site, &wrong, &other, "team/wrong")?;
    site.registry.push(scratch, &unsigned.path, "team/unsigned")?;

    let host = format!("{REGISTRY_NAME}:{}", site.registry.port());
    let policy = json!({
        "default": [{"type": "reject"}],
        "transports": {"docker": {format!("{host}/team"): [{
            "type": "sigstoreSigned",
            "keyPath": "kbs:///default/key/team",
            "signedIdentity": {"type": "matchRepository"},
        }]}},
    });
    let vault = Vault::new()
        .with("default/policy/images", policy.to_string())
        .with("default/key/team", std::fs::read(team.public())?);
    let initdata = format!(
        "{}\"imagepuller.toml\" = '''\n[image-policy]\nuri = \"kbs:///default/policy/images\"\n\
        allow-tags = [\"{host}/team/app\"]\n[resources]\nsource = \"cdh=unix:{HUB}\"\n'''\n",
        sample_initdata(),
    );
    let digest = &site.layout.manifest;
    let more = [
        format!("{host}/team/app:1"),
        format!("{host}/team/unsigned@{}", unsigned.manifest),
        format!("{host}/team/wrong@{}", wrong.manifest),
        format!("{host}/team/tool:1"),
        format!("{host}/foreign/app@{digest}"),
    ];
    let more: Vec<_> = more.iter().map(|image| (None, image.as_str())).collect();
    let mut scenario = site.scenario();
    scenario.programs.push(Program::GuestResources);
    let report = run(&Scenario {
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata),
        files: further_pulls(&more).into_iter().chain(hub_of(vault.offline_file())).collect(),
        ..scenario
    })?;
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(demo::files(&report)?, site.layout.files);
    assert_eq!(report.value("pull1"), Some("exit 0"), "{}", report.console);
    assert_eq!(demo::files_of(&report, "file1")?, site.layout.files);
    for (number, words) in [
        ("2", ["the image policy refuses", "no signature was found"]),
        ("3", ["the image policy refuses", "is by"]),
        ("4", ["has no digest", "allow-tags"]),
        ("5", ["the image policy refuses", "the default rejects it"]),
    ] {
        assert_tells(&nth_refusal(&report, number)?, &words);
    }
    // For all pulls of the boot.
    assert_eq!(report.console.matches("asked for kbs:///").count(), 2, "{}", report.console);
    end_to_end::assert_no_secret(&site, &report.console);
    Ok(())
}
