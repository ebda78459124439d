//! Images encrypted by `skopeo`, pulled with the keys that open them and refused without.
//!
//! Keys come from the document, and from a data hub in the guest; each result is compared file by
//! file with the plain image. Which key opens what, and what attackers make of such images, is
//! proven without a VM in the puller's own tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod images;

use anyhow::Result;
use confidential_fixtures::Vault;
use confidential_fixtures::encrypted::{Key, KeyKind, Rewrap, Surgery, Version, Which, WrapType};
use end_to_end::{HUB, assert_tells, hub_of, nth_refusal, refusal, run};
use images::{KEY_PASSWORD, Locked, item, item_with};
use vm_harness::{Program, Scenario};

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
fn the_hub_behind_the_puller_has_the_keys() -> Result<()> {
    let locked = Locked::start()?;
    let scratch = locked.site.scratch();
    let rsa = locked.key(KeyKind::Rsa2048);
    let plain_rsa = locked.encrypt("for-rsa", &[rsa], Which::All)?;
    let mut references = Vec::new();
    let mut vault = Vault::new().with("default/key/rsa", rsa.pem()?);
    // Packets come in both versions.
    for (name, version) in [("one", Version::One), ("two", Version::Two)] {
        let path = format!("default/key/{name}");
        let rewrap = Rewrap { version, ..Rewrap::new(&format!("kbs:///{path}"))? };
        let image = rewrap.apply(scratch, name, &plain_rsa, rsa)?;
        image.prove(&locked.site.layout.path, Which::All)?;
        references.push(locked.push(name, &image)?);
        vault = vault.with(&path, rewrap.key);
    }
    // A private key by reference.
    references.push(locked.push("referenced", &plain_rsa)?);
    // Packets that anybody may change, and a key that nobody has.
    let rewrap = Rewrap::new("kbs:///default/key/forgeable")?;
    let forgeable = Rewrap { wrap_type: WrapType::A256Ctr, ..rewrap };
    let vault = vault.with("default/key/forgeable", forgeable.key);
    for (name, rewrap) in
        [("forgeable", forgeable), ("lost", Rewrap::new("kbs:///default/key/lost")?)]
    {
        let image = rewrap.apply(scratch, name, &plain_rsa, rsa)?;
        references.push(locked.push(name, &image)?);
    }
    let (first, more) = references.split_first().unwrap();
    let [second, referenced, forgeable, lost] = more else { unreachable!("there are five") };
    let document = locked.document(&["kbs:///default/key/rsa".to_owned()]);
    let more = [
        (None, second.as_str()),
        (Some(document.as_str()), referenced),
        (None, forgeable),
        (None, lost),
    ];
    let mut scenario = locked.scenario(locked.site.document(), first, &more);
    scenario.programs.push(Program::GuestResources);
    let [file, (name, services)] = hub_of(vault.offline_file());
    let services =
        [services, format!("PULLER_ARGUMENTS='--upstream unix:{HUB}'\n").into()].concat();
    scenario.files.extend([file, (name, services)]);
    let report = run(&scenario)?;
    locked.assert_first(&report)?;
    locked.assert_more(&report, 1)?;
    locked.assert_more(&report, 2)?;
    assert_tells(&nth_refusal(&report, "3")?, &["A256CTR", "refused"]);
    assert_tells(&nth_refusal(&report, "4")?, &["encrypted", "default/key/lost"]);
    for name in ["one", "two", "rsa", "lost"] {
        assert_tells(&report.console, &[&format!("asked for kbs:///default/key/{name}")]);
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
