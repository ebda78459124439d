//! Images encrypted by `skopeo`, pulled with the keys that open them and refused without.
//!
//! Keys come from the document, from a key broker service, and from a data hub and a
//! file in the guest; each result is compared file by file with the plain image. Which key opens
//! what, and what attackers make of such images, is proven without a VM in the puller's own tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod images;

use anyhow::Result;
use confidential_fixtures::encrypted::{Key, KeyKind, Rewrap, Surgery, Version, Which, WrapType};
use confidential_fixtures::{Kbs, Policy, Vault};
use end_to_end::{assert_tells, nth_refusal, refusal, run};
use images::{KEY_PASSWORD, Locked, item, item_with};
use test_http::pki::Authority;
use vm_harness::{Evidence, Program, Scenario};

/// The name of the key broker service, which only the guest's `/etc/hosts` knows.
const KBS_NAME: &str = "kbs.corp";

#[test]
fn keys_of_the_document_open_images_of_every_kind() -> Result<()> {
    let locked = Locked::start()?;
    // Each key in another container.
    let document = locked.document(&[
        item(locked.key(KeyKind::Rsa2048).pem()?.as_bytes()),
        item(&locked.key(KeyKind::P256).der()?),
        item(locked.key(KeyKind::P384).traditional_pem()?.as_bytes()),
        item_with(locked.key(KeyKind::P521).protected_pem(KEY_PASSWORD)?.as_bytes(), KEY_PASSWORD),
    ]);
    let mut references = Vec::new();
    for key in &locked.keys {
        let name = format!("{:?}", key.kind).to_lowercase();
        let image = locked.encrypt(&name, &[key], Which::All)?;
        references.push(locked.push(&name, &image)?);
    }
    let all: Vec<&Key> = locked.keys.iter().collect();
    for (name, which) in [("several", Which::All), ("last", Which::Last)] {
        let image = locked.encrypt(name, &all, which)?;
        references.push(locked.push(name, &image)?);
    }
    let (first, more) = references.split_first().unwrap();
    let more: Vec<(Option<&str>, &str)> = more.iter().map(|image| (None, image.as_str())).collect();
    let report = run(&locked.scenario(document, first, &more))?;
    locked.assert_first(&report)?;
    for number in 1..=more.len() {
        locked.assert_more(&report, number)?;
    }
    Ok(())
}

#[test]
fn a_key_broker_opens_an_image_for_a_guest_that_proves_itself() -> Result<()> {
    let locked = Locked::start()?;
    let scratch = locked.site.scratch();
    let rsa = locked.key(KeyKind::Rsa2048);
    let rewrap = Rewrap::new("kbs:///default/key/image")?;
    let image = locked.encrypt("for-rsa", &[rsa], Which::All)?;
    let image = rewrap.apply(scratch, "for-broker", &image, rsa)?;
    image.prove(&locked.site.layout.path, Which::All)?;
    let reference = locked.push("brokered", &image)?;
    let lost = Rewrap::new("kbs:///default/key/lost")?;
    let other = locked.encrypt("for-rsa-too", &[rsa], Which::All)?;
    let other = lost.apply(scratch, "for-nobody", &other, rsa)?;
    let other = locked.push("lost", &other)?;

    let authority = Authority::new("the broker's CA")?;
    let vault = Vault::new().with("default/key/image", rewrap.key);
    let kbs = Kbs::start(vault, Policy::default(), Some((&authority, KBS_NAME)))?;
    let initdata = measured(&format!(
        "[resources]\nsources = [\"kbs={}\"]\nkbs-attester = \"sample\"\nkbs-ca-certs \
        = \"\"\"\n{}\"\"\"\n",
        kbs.base(),
        authority.certificate()
    ));
    let scenario = locked.scenario(locked.site.document(), &reference, &[(None, &other)]);
    let report = run(&Scenario {
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata),
        hosts: format!("{}10.0.2.2 {KBS_NAME}\n", locked.site.scenario().hosts),
        ..scenario
    })?;
    locked.assert_first(&report)?;
    // One attestation, one key for all layers, and a second question on the same session.
    let asked: Vec<(String, u16)> =
        kbs.requests().into_iter().map(|asked| (asked.target, asked.status)).collect();
    let expected = [
        ("/kbs/v0/auth", 200),
        ("/kbs/v0/attest", 200),
        ("/kbs/v0/resource/default/key/image", 200),
        ("/kbs/v0/resource/default/key/lost", 401),
    ];
    assert_eq!(asked, expected.map(|(target, status)| (target.to_owned(), status)));
    assert_tells(&nth_refusal(&report, "1")?, &["encrypted", "default/key/lost"]);
    Ok(())
}

#[test]
fn a_hub_and_a_file_are_asked_in_order() -> Result<()> {
    let locked = Locked::start()?;
    let scratch = locked.site.scratch();
    let rsa = locked.key(KeyKind::Rsa2048);
    let plain_rsa = locked.encrypt("for-rsa", &[rsa], Which::All)?;
    let mut references = Vec::new();
    let mut vaults = Vec::new();
    let mut forgeable = None;
    // Each place has one key, and packets come in both versions.
    for (place, version) in [("hub", Version::One), ("file", Version::Two)] {
        let path = format!("default/key/{place}");
        let rewrap = Rewrap { version, ..Rewrap::new(&format!("kbs:///{path}"))? };
        let image = rewrap.apply(scratch, &format!("for-{place}"), &plain_rsa, rsa)?;
        references.push(locked.push(place, &image)?);
        vaults.push(Vault::new().with(&path, rewrap.key));
        forgeable = forgeable.or(Some(Rewrap { wrap_type: WrapType::A256Ctr, ..rewrap }));
    }
    // And a private key by reference, which the file has.
    references.push(locked.push("referenced", &plain_rsa)?);
    // The hub's key again, in packets that anybody may change.
    let rewrap = forgeable.unwrap();
    let image = rewrap.apply(scratch, "forgeable", &plain_rsa, rsa)?;
    references.push(locked.push("forgeable", &image)?);
    let file = vaults.pop().unwrap().with("default/key/rsa", rsa.pem()?);
    let document = locked.document(&["kbs:///default/key/rsa".to_owned()]);
    let (first, more) = references.split_first().unwrap();
    let more: Vec<(Option<&str>, &str)> = more.iter().map(|image| (None, image.as_str())).collect();
    let mut scenario = locked.scenario(document, first, &more);
    scenario.programs.push(Program::GuestResources);
    let services = "guest-resources /job/hub.json /run/hub.sock &\n\
         until [ -S /run/hub.sock ]; do usleep 20000; done\n\
         PULLER_ARGUMENTS='--resources cdh=unix:/run/hub.sock --resources \
         file=/job/file.json'\n";
    scenario.files.extend([
        ("job/services".to_owned(), services.into()),
        ("job/hub.json".to_owned(), vaults[0].offline_file().into()),
        ("job/file.json".to_owned(), file.offline_file().into()),
    ]);
    let report = run(&scenario)?;
    locked.assert_first(&report)?;
    for number in 1..more.len() {
        locked.assert_more(&report, number)?;
    }
    assert_tells(&nth_refusal(&report, &more.len().to_string())?, &["A256CTR", "refused"]);
    for asked in ["asked for kbs:///default/key/hub", "asked for kbs:///default/key/file"] {
        assert!(report.console.contains(asked), "{asked}: {}", report.console);
    }
    Ok(())
}

#[test]
fn no_image_without_its_key_not_even_a_cached_one() -> Result<()> {
    let locked = Locked::start()?;
    let rsa = locked.key(KeyKind::Rsa2048);
    let image = locked.encrypt("for-rsa", &[rsa], Which::All)?;
    // Encrypted anew: a layer that is in the store under the same key is not fetched again,
    // whatever its ciphertext is.
    let anew = locked.encrypt("anew", &[rsa], Which::All)?;
    let mut flipped = Surgery::begin(locked.site.scratch(), "flipped", &anew)?;
    flipped.flip(2)?;
    let flipped = flipped.finish()?;
    let flipped_layer = flipped.layers()?[2]["digest"].as_str().unwrap().to_owned();
    let reference = locked.push("locked", &image)?;
    let flipped = locked.push("flipped", &flipped)?;
    let with_key = locked.document(&[item(rsa.pem()?.as_bytes())]);
    let without = locked.site.document();
    let with_other = locked.document(&[item(&locked.key(KeyKind::P256).der()?)]);
    let more = [
        (None, reference.as_str()),
        (None, flipped.as_str()),
        (Some(without.as_str()), reference.as_str()),
        (Some(with_other.as_str()), reference.as_str()),
        (Some(with_key.as_str()), reference.as_str()),
    ];
    let report = run(&locked.scenario(with_key.clone(), &reference, &more))?;
    locked.assert_first(&report)?;
    locked.assert_more(&report, 1)?;
    assert_tells(&nth_refusal(&report, "2")?, &[&flipped_layer, "HMAC"]);
    assert_tells(&nth_refusal(&report, "3")?, &["is encrypted and there is no key"]);
    assert_tells(&nth_refusal(&report, "4")?, &["is encrypted and there is no key"]);
    locked.assert_more(&report, 5)?;
    Ok(())
}

#[test]
fn a_guest_without_a_key() -> Result<()> {
    let locked = Locked::start()?;
    let image = locked.encrypt("locked", &[locked.key(KeyKind::P384)], Which::Last)?;
    let reference = locked.push("locked", &image)?;
    let report = run(&Scenario { image: reference, ..locked.site.scenario() })?;
    let last = image.layers()?.last().unwrap()["digest"].clone();
    let error = refusal(&report)?;
    assert_tells(&error, &[last.as_str().unwrap(), "there is no key for it"]);
    // Nothing was fetched that cannot be used.
    let blob = format!("blobs/{}", last.as_str().unwrap());
    let asked = locked.site.registry.answers();
    let fetched =
        |(request, _): &(String, u16)| request.starts_with("GET") && request.contains(&blob);
    assert!(!asked.iter().any(fetched), "{asked:?}");
    locked.assert_no_secret(&report.console)
}

/// Initdata that also brings a document for the puller.
fn measured(document: &str) -> String {
    let initdata = vm_harness::site::sample_initdata();
    format!("{initdata}\"imagepuller.toml\" = '''\n{document}'''\n")
}
