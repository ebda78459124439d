//! Credentials that the host never sees, and a host that tries to have them sent to itself.
//!
//! The table of the confused deputy: in each row the host writes something into its document, or
//! answers in a registry's place, and servers that record everything prove that no secret leaves.
//! Most rows run the guest's puller on this machine; the last ones run in a guest.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod guest;
pub mod one_source;
pub mod stage;

use anyhow::{Context as _, Result};
use confidential_fixtures::encrypted::{Key, KeyKind, Rewrap, Which, encrypt};
use confidential_fixtures::{DataHub, Vault};
use end_to_end::assert_tells;
use fault_registry::Script;
use serde_json::json;
use stage::{
    CREDENTIALS, HOSTS_OWN, OTHER, ROOTS, Stage, assert_pulled, entry, last_line, name, references,
    roots,
};
use test_http::Recorder;
use vm_harness::is_root;
use vm_harness::layout::{Compression, of_archives};

/// What an error says of a reference, whatever lies there.
const NOTHING: &str =
    "the broker gave nothing usable to this guest; `imagepuller status` inside says why";

/// Unpacking wants root, so the rows do; each begins with this.
macro_rules! as_root {
    ($test:literal) => {
        if !is_root($test) {
            return Ok(());
        }
    };
}

#[test]
fn privileged_the_registry_that_the_secret_names_gets_it() -> Result<()> {
    as_root!("privileged_the_registry_that_the_secret_names_gets_it");
    let stage = Stage::set()?;
    let registry = stage.registry(Script::new())?;
    let vault = stage.vault(&registry);
    let hub = DataHub::start(&stage.scratch.path().join("hub.sock"), vault.clone())?;
    let [credentials, ca_certs] = references();
    let document = entry("localhost", &[&credentials, &ca_certs]);
    let by_hub = end_to_end::HostPull::new(&document)?.resources(&hub.source());
    for pull in [stage.pull(&document, &vault)?, by_hub] {
        let before = registry.requests().len();
        let outcome = pull.run(&stage.image(&registry))?;
        assert_pulled(&outcome)?;
        assert!(registry.requests().len() > before);
        stage.assert_kept(&outcome, &[]);
        stage.assert_given(&registry);
    }
    let wanted = [CREDENTIALS, ROOTS];
    let mut asked = hub.asked();
    asked.sort();
    let mut expected = wanted.map(str::to_owned);
    expected.sort();
    assert_eq!(asked, expected);
    Ok(())
}

#[test]
fn privileged_the_host_names_another_registry() -> Result<()> {
    as_root!("privileged_the_host_names_another_registry");
    let stage = Stage::set()?;
    let registry = stage.registry(Script::new())?;
    // Even one whose certificate is in order.
    for authority in [&stage.owner, &stage.host] {
        let other = stage.stand_in(Some(authority))?;
        let [credentials, ca_certs] = references();
        let document = entry("localhost", &[&credentials, &ca_certs]);
        let outcome = stage.attempt(&document, &stage.vault(&registry), &other)?;
        let refusal = outcome.refusal()?;
        assert_tells(refusal, &[CREDENTIALS, NOTHING]);
        let kept = ["credentials-uri", &name(&other), "no entry for that registry"];
        assert_tells(&outcome.reasons, &kept);
        assert!(!refusal.contains(&name(&registry)), "{refusal}");
        stage.assert_kept(&outcome, &[&registry, &other]);
        assert!(other.requests().is_empty(), "nothing is pulled without it");
    }
    Ok(())
}

#[test]
fn privileged_the_host_answers_for_the_registry() -> Result<()> {
    as_root!("privileged_the_host_answers_for_the_registry");
    let stage = Stage::set()?;
    // Under the registry's own name and port, which the fetched document has.
    let own_ca = roots(&stage.host);
    let [credentials, ca_certs] = references();
    let skip = "insecure-skip-verify = true";
    let everywhere = entry(".", &[&own_ca, skip]);
    let (by_reference, with_roots) = ([credentials.as_str()], [credentials.as_str(), &ca_certs]);
    let rows: [(&[&str], &[&str], &str); 5] = [
        (&by_reference, &[&own_ca], ""),
        (&by_reference, &[&own_ca, skip], ""),
        (&with_roots, &[], ""),
        (&with_roots, &[skip], ""),
        (&by_reference, &[], &everywhere),
    ];
    for (references, weaknesses, more) in rows {
        let host = stage.stand_in(Some(&stage.host))?;
        let lines = [references, weaknesses].concat();
        let document = entry("localhost", &lines) + more;
        let vault = stage.vault(&host);
        let outcome = stage.attempt(&document, &vault, &host)?;
        let refusal = last_line(outcome.refusal()?);
        assert_tells(refusal, &["certificate", &name(&host), "not trusted"]);
        stage.assert_kept(&outcome, &[&host]);
        assert!(host.requests().is_empty(), "TLS is as far as it gets");
        // It is the reference that forbids it: with the host's own password all of this works.
        if !weaknesses.is_empty() {
            let lines = [&HOSTS_OWN[..], weaknesses].concat();
            let outcome = stage.attempt(&entry("localhost", &lines), &vault, &host)?;
            assert_pulled(&outcome)?;
        }
    }
    Ok(())
}

#[test]
fn privileged_a_mirror_of_the_hosts() -> Result<()> {
    as_root!("privileged_a_mirror_of_the_hosts");
    let stage = Stage::set()?;
    let [credentials, ca_certs] = references();
    let registry = stage.registry(Script::new())?;
    let mirror = Recorder::start()?;
    let with_ca = stage.serve(Script::new(), Some(&stage.host))?;
    for lines in [
        vec![format!("mirror = \"https://localhost:{}\"", mirror.address().port())],
        vec![format!("mirror = \"http://{}\"", mirror.address()), "plain-http = true".to_owned()],
        vec![
            format!("mirror = \"https://{}\"", name(&with_ca)),
            "mirror-fallback = false".to_owned(),
        ],
    ] {
        let mut all = vec![credentials.as_str(), ca_certs.as_str()];
        all.extend(lines.iter().map(String::as_str));
        let of_mirror = entry(&name(&with_ca), &[&roots(&stage.host)]);
        let document = entry("localhost", &all) + &of_mirror;
        let outcome = stage.attempt(&document, &stage.vault(&registry), &registry)?;
        assert_pulled(&outcome)?;
        stage.assert_given(&registry);
        stage.assert_kept(&outcome, &[&with_ca]);
    }
    assert!(mirror.record().is_empty(), "the mirror was asked");
    assert!(with_ca.requests().is_empty() && with_ca.connections() == 0);
    Ok(())
}

#[test]
fn privileged_a_reference_to_another_secret() -> Result<()> {
    as_root!("privileged_a_reference_to_another_secret");
    let stage = Stage::set()?;
    let registry = stage.registry(Script::new())?;
    let vault = stage.vault(&registry);
    let [credentials, ca_certs] = references();
    let other = |key: &str| format!("{key} = \"{OTHER}\"");
    for (lines, key) in [
        (vec![other("credentials-uri"), ca_certs], "credentials-uri"),
        (vec![credentials.clone(), other("ca-certs-uri")], "ca-certs-uri"),
        // The credentials are no roots, and the roots no credentials.
        (vec![credentials, format!("ca-certs-uri = \"{CREDENTIALS}\"")], "ca-certs-uri"),
        (vec![format!("credentials-uri = \"{ROOTS}\"")], "credentials-uri"),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let outcome = stage.attempt(&entry("localhost", &lines), &vault, &registry)?;
        assert_tells(outcome.refusal()?, &["kbs:///", NOTHING]);
        assert!(!outcome.said.contains(key), "{}", outcome.said);
        assert_tells(&outcome.reasons, &[key]);
        stage.assert_kept(&outcome, &[&registry]);
        assert!(registry.requests().is_empty());
    }
    Ok(())
}

/// The host may name any resource, and it reads errors and the console. So neither tells whether
/// there is one and what it is; what is kept in the guest does.
#[test]
fn privileged_what_lies_at_a_reference_is_not_told() -> Result<()> {
    as_root!("privileged_what_lies_at_a_reference_is_not_told");
    let stage = Stage::set()?;
    let registry = stage.registry(Script::new())?;
    let auths = |name: &str| json!({"auths": {name: {"auth": stage.auth()}}}).to_string();
    for key in ["credentials-uri", "ca-certs-uri"] {
        let document = entry("localhost", &[&format!("{key} = \"{OTHER}\"")]);
        let mut said = Vec::new();
        let mut kept = Vec::new();
        for secret in [
            None,
            Some(String::new()),
            Some("{}".to_owned()),
            Some("{\"auths\": {}}".to_owned()),
            Some(auths("other.corp")),
            Some(stage.other.clone()),
            Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
            Some("x".repeat(2 << 20)),
        ] {
            let path = OTHER.trim_start_matches("kbs:///");
            let vault = match &secret {
                Some(secret) => Vault::new().with(path, secret),
                None => Vault::new(),
            };
            let outcome = stage.attempt(&document, &vault, &registry)?;
            outcome.refusal()?;
            stage.assert_kept(&outcome, &[&registry]);
            assert!(registry.requests().is_empty());
            // Each line begins with the time.
            let line = |line: &str| line.split_once(' ').unwrap_or_default().1.to_owned();
            said.push((outcome.code, outcome.said.lines().map(line).collect::<Vec<_>>()));
            kept.push(outcome.reasons);
        }
        assert!(said.iter().all(|other| *other == said[0]), "{said:#?}");
        let last = said[0].1.last().context("it says nothing")?;
        assert_tells(last, &[OTHER, NOTHING]);
        let all = kept.concat();
        assert_tells(&all, &["does not have it", "is empty", key]);
    }
    Ok(())
}

#[test]
fn privileged_keys_that_are_another_secret() -> Result<()> {
    as_root!("privileged_keys_that_are_another_secret");
    let stage = Stage::set()?;
    let scratch = &stage.scratch;
    let tar = vm_harness::archive::Tar::default().file("secret", [7; 3000]);
    let layers = vec![(tar.bytes(), Compression::Gzip)];
    let plain = of_archives(&scratch.path().join("plain"), layers)?;
    let key = Key::generate(scratch, "key", KeyKind::Rsa2048)?;
    let image = encrypt(scratch, "locked", &plain.path, &[&key], Which::All)?;
    // An image's author names a key too: here the registry's credentials.
    let packets = Rewrap::new(CREDENTIALS)?.apply(scratch, "packets", &image, &key)?;
    let by_reference = format!("[decryption-keys]\nkeys = [\"{OTHER}\"]\n");
    for (image, keys, asked, kept) in [
        (&image, by_reference.as_str(), OTHER, "is no private key that can be used"),
        (&packets, "", CREDENTIALS, "is no key of 32 bytes"),
    ] {
        let registry = stage.serve_layout(&image.path, Script::new())?;
        let reference = format!("{}/team/app@{}", name(&registry), image.manifest);
        let document = entry("localhost", &[&roots(&stage.owner)]) + keys;
        let path = asked.trim_start_matches("kbs:///");
        let mut said = Vec::new();
        // Other words, another length, another kind: a text, JSON, a public key, bytes.
        for (number, secret) in [
            stage.other.clone().into_bytes(),
            json!({"auths": {"a": {"auth": stage.auth()}}}).to_string().into(),
            std::fs::read(key.public())?,
            vec![0xff; 5000],
        ]
        .into_iter()
        .enumerate()
        {
            let socket = scratch.path().join(format!("{number}-{}.sock", keys.len()));
            let hub = DataHub::start(&socket, Vault::new().with(path, &secret))?;
            let outcome = end_to_end::HostPull::new(&document)?
                .resources(&format!("cdh=unix:{}", socket.display()))
                .run(&reference)?;
            let refusal = last_line(outcome.refusal()?).to_owned();
            assert_tells(&refusal, &["encrypted", asked, NOTHING]);
            assert_tells(&outcome.reasons, &[asked, kept]);
            stage.assert_kept(&outcome, &[&registry]);
            assert!(!outcome.said.contains("PUBLIC"), "{}", outcome.said);
            assert_eq!(hub.asked(), [asked]);
            said.push(refusal);
        }
        let is_first = |line: &String| *line == said[0];
        assert!(said.iter().all(is_first), "the secret can be told: {said:#?}");
    }
    Ok(())
}

#[test]
fn privileged_no_falling_back() -> Result<()> {
    as_root!("privileged_no_falling_back");
    let stage = Stage::set()?;
    // It would give the image to anybody.
    let open = stage.serve(Script::new(), Some(&stage.owner))?;
    let missing = "credentials-uri = \"kbs:///default/credential/none\"";
    let host_given =
        entry(".", &["username = \"host\"", "password = \"the-hosts\"", &roots(&stage.owner)]);
    let document = entry("localhost", &[missing]) + &host_given;
    let vault = stage.vault(&open);
    let outcome = stage.attempt(&document, &vault, &open)?;
    assert_tells(outcome.refusal()?, &["default/credential/none"]);
    stage.assert_kept(&outcome, &[&open]);
    assert!(open.requests().is_empty(), "it was asked all the same");
    assert!(!outcome.said.contains("the-hosts"));

    // Nobody to ask at all.
    let outcome = end_to_end::HostPull::new(&document)?.run(&stage.image(&open))?;
    assert_tells(outcome.refusal()?, &["resources"]);
    assert!(open.requests().is_empty());

    // A docker configuration with the right registry and nothing in it.
    for entry_of in [json!({}), json!({"auth": ""}), json!({"email": "a@b"})] {
        let configuration = json!({"auths": {name(&open): entry_of}}).to_string();
        let vault = stage.vault_of(&configuration);
        let [credentials, ca_certs] = references();
        let document = entry("localhost", &[&credentials, &ca_certs]);
        let outcome = stage.attempt(&document, &vault, &open)?;
        assert_tells(outcome.refusal()?, &[CREDENTIALS, NOTHING]);
        assert_tells(&outcome.reasons, &["credentials-uri", &name(&open)]);
        assert!(open.requests().is_empty());
    }
    Ok(())
}

#[test]
fn privileged_the_host_says_whom_to_ask() -> Result<()> {
    as_root!("privileged_the_host_says_whom_to_ask");
    let stage = Stage::set()?;
    let registry = stage.registry(Script::new())?;
    let other = DataHub::start(&stage.scratch.path().join("other.sock"), Vault::new())?;
    let [credentials, ca_certs] = references();
    let document = format!(
        "[resources]\nsource = \"{}\"\n\n{}",
        other.source(),
        entry("localhost", &[&credentials, &ca_certs])
    );
    let outcome = stage.attempt(&document, &stage.vault(&registry), &registry)?;
    assert_tells(outcome.refusal()?, &["resources", "measured"]);
    stage.assert_kept(&outcome, &[&registry]);
    assert!(other.asked().is_empty() && registry.requests().is_empty());
    Ok(())
}

#[test]
fn privileged_measured_entries_come_first() -> Result<()> {
    as_root!("privileged_measured_entries_come_first");
    let stage = Stage::set()?;
    let registry = stage.registry(Script::new())?;
    let vault = stage.vault(&registry);
    let mirror = Recorder::start()?;
    let [credentials, ca_certs] = references();
    let owned = roots(&stage.owner);
    let wrong = "password = \"the-hosts\"\nusername = \"host\"";
    let mirror_line = format!("mirror = \"https://localhost:{}\"", mirror.address().port());
    let document = entry(&name(&registry), &[wrong, &mirror_line, &roots(&stage.host)]);
    // Even the measured entry for everything comes before the host's for this very registry.
    for pattern in ["localhost", "."] {
        for lines in [
            vec![credentials.as_str(), ca_certs.as_str()],
            vec![credentials.as_str(), owned.as_str()],
        ] {
            let outcome = stage
                .pull(&document, &vault)?
                .measured(&entry(pattern, &lines))
                .run(&stage.image(&registry))?;
            assert_pulled(&outcome)?;
            stage.assert_given(&registry);
            stage.assert_kept(&outcome, &[]);
        }
    }
    assert!(mirror.record().is_empty(), "the host's mirror was asked");
    Ok(())
}
