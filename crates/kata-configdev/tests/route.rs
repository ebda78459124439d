//! "explain cannot lie": what the host's `explain --json` prints of a pull is compared with whom
//! recording servers are asked by the guest's own pull.
//!
//! The host's side is the built program. The guest's side is `imagepuller::pull::output::pull_to`,
//! the call behind `imagepuller pull`: a process for each case would be too slow.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod cdh;
use crate::command;
mod documents;
mod forecast;
mod world;

use command::{Run, run};
use documents::Case;
use oci_image::reference::ImageReference;
use world::{Files, Lure, Party, World};

/// How many documents are made up. Each costs about a tenth of a second.
const CASES: u64 = 200;

/// The digest of nothing that any server has.
fn reference(image: &str) -> String {
    format!("{image}/team/app@sha256:{}", "0".repeat(64))
}

/// What `explain` says of an image, by both documents.
fn explain(files: &Files, image: &str) -> Run {
    let (configuration, measured) = (&files.configuration, &files.measured);
    run(&["explain", "--json", "--config", configuration, "--measured", measured, image])
}

#[test]
fn explain_and_a_pull_never_disagree() {
    let world = World::start();
    let mut seen = forecast::Coverage::default();
    for seed in 0..CASES {
        let case = Case::make(seed, &world);
        let files = world.write(&case);
        let explained = explain(&files, &reference(&case.image));
        let (asked, error) = world.pull(&files, &reference(&case.image));
        let about = || format!("seed {seed}, {}\n{case}\n{}", case.image, explained.stdout);
        let Ok(json) = serde_json::from_str(&explained.stdout) else {
            // No document to explain: the guest refuses it too.
            assert_eq!((explained.code, asked.len()), (65, 0), "{}", about());
            assert!(error.contains("is not valid"), "{error}\n{}", about());
            seen.invalid += 1;
            continue;
        };
        if let Some(refused) = forecast::refused(&json) {
            assert_eq!((explained.code, asked.len()), (65, 0), "{}", about());
            assert!(error.contains(&refused), "{error}\n{}", about());
            seen.refused += 1;
            continue;
        }
        let expected = forecast::visits(&json, &case, &world, &mut seen);
        assert_eq!(asked, expected, "{error}\n{}", about());
        let mut in_clear = asked.iter().filter(|visit| !visit.is_tls).flat_map(|visit| &visit.who);
        assert!(in_clear.all(|who| !who.starts_with(world::FETCHED)), "{}", about());
    }
    seen.assert_complete();
}

/// Where the registries name a stranger as their token server or redirect to it, it gets nothing
/// that was fetched, and behind a redirect no account at all, whatever either document says of it.
/// A pull with fetched credentials follows no redirect to a server that is not verified.
#[test]
fn a_stranger_is_told_no_secret() {
    let world = World::start();
    let lures = [Lure::Realm(0), Lure::Realm(1), Lure::Redirect(0), Lure::Redirect(1)];
    // How often a stranger was asked, and told what is no secret.
    let (mut asked, mut told) = ([0; 4], [0; 4]);
    // Pulls with fetched credentials that came to a registry with the lure.
    let mut fetched = [0; 4];
    for seed in 0..CASES {
        let case = Case::make(seed, &world);
        let trusting = [Party::Host, Party::Owner][seed as usize % 2];
        let explained = explain(&world.write(&case), &reference(&case.image));
        let json: serde_json::Value = serde_json::from_str(&explained.stdout).unwrap_or_default();
        let is_fetched = json["registry"]["credentials"]["kind"] == "credentials-uri";
        for (index, lure) in lures.into_iter().enumerate() {
            let (requests, visits) = world.tempt(lure, trusting, &case);
            fetched[index] += u32::from(is_fetched && !visits.is_empty());
            let may_be_asked = !is_fetched || index < 2;
            assert!(
                may_be_asked || requests.is_empty(),
                "seed {seed} {lure:?}, {}\n{case}",
                case.image
            );
            for who in requests.iter().map(world::account) {
                asked[index] += 1;
                let Some(who) = who else { continue };
                let may_be_told = index < 2 && !who.starts_with(world::FETCHED);
                assert!(may_be_told, "seed {seed} {lure:?} {who}, {}\n{case}", case.image);
                told[index] += 1;
            }
        }
    }
    let counts = asked.iter().chain(&told[..2]).chain(&fetched);
    assert!(counts.copied().all(|count| count > 1), "{asked:?} {told:?} {fetched:?}");
}

/// Whose client certificate a registry and a mirror see; made-up documents seldom have an owner who
/// leaves it to the host.
#[test]
fn a_client_certificate_goes_where_explain_says() {
    let world = World::start();
    let [port, other] = [0, 1].map(|index: usize| world.servers[index].port);
    let roots = format!("ca-certs = \"\"\"\n{}\"\"\"\n", world.authorities[0].certificate());
    let entry = |more: &str| format!("[registries.\"localhost:{port}\"]\n{roots}{more}");
    let [host, owner] = [Party::Host, Party::Owner].map(|party| world.client_keys(party));
    let mirror = format!("mirror = \"https://localhost:{other}\"\nmirror-fallback = true\n");
    let of_mirror = format!("[registries.\"localhost:{other}\"]\n{roots}{host}");
    for (measured, configuration, expected) in [
        (String::new(), entry(&host), vec![Some(Party::Host)]),
        (entry(""), entry(&host), vec![Some(Party::Host)]),
        (entry(&owner), entry(&host), vec![Some(Party::Owner)]),
        (entry("anonymous = true\n"), entry(&host), vec![None]),
        (String::new(), entry(&format!("{host}insecure-skip-verify = true\n")), vec![None]),
        (String::new(), entry(&format!("{host}{mirror}")), vec![None, Some(Party::Host)]),
        (String::new(), entry(&mirror) + &of_mirror, vec![Some(Party::Host), None]),
    ] {
        let files = world.write_texts(&configuration, &measured);
        let image = reference(&format!("localhost:{port}"));
        let explained = explain(&files, &image);
        let json = explained.json();
        let sources = [&json["mirror"], &json["registry"]].into_iter();
        let said: Vec<_> = sources
            .filter(|source| source["asked"] == true)
            .map(|source| source["client_cert"] == true)
            .collect();
        let (asked, error) = world.pull(&files, &image);
        let shown: Vec<_> = asked.iter().map(|visit| visit.client).collect();
        assert_eq!(shown, expected, "{error}\n{}", explained.stdout);
        let is_shown: Vec<_> = shown.iter().map(Option::is_some).collect();
        assert_eq!(said, is_shown, "{}", explained.stdout);
    }
}

/// `check` once called this document valid and `explain` a way that works, and every pull failed.
#[test]
fn a_mirror_with_a_reference_is_refused_by_both() {
    let world = World::start();
    let port = world.servers[0].port;
    for key in ["credentials-uri", "ca-certs-uri"] {
        let document = format!(
            "[registries.\"a.corp\"]\nmirror = \"https://localhost:{port}\"\n\
             [registries.\"localhost:{port}\"]\n{key} = \"kbs:///default/ca/test\"\n"
        );
        let files = world.write_texts(&document, "");
        let checked = run(&["check", "--json", &files.configuration]);
        let rule = format!("the mirror's own entry has \"{key}\"");
        assert_eq!(checked.code, 65, "{}", checked.stdout);
        let message = &checked.json()["problems"][0]["message"];
        assert!(message.as_str().unwrap().starts_with(&rule), "{message}");
        let explained = run(&["explain", "--config", &files.configuration, "a.corp/app"]);
        assert_eq!(explained.code, 65);
        let (asked, error) = world.pull(&files, &reference("a.corp"));
        assert!(asked.is_empty() && error.contains(&rule), "{error}");
    }
}

/// `explain` once read references with another grammar than the guest.
#[test]
fn a_reference_is_read_as_the_guest_reads_it() {
    let world = World::start();
    let files = world.write_texts("", "");
    let image = format!("[fd00::1]:5000/team/app:tag@sha512:{}", "0".repeat(128));
    let reference = ImageReference::parse(&image).unwrap();
    let json = run(&["explain", "--json", "--config", &files.configuration, &image]).json();
    assert_eq!(json["image"]["host"], reference.registry().to_string());
    assert_eq!(json["image"]["digest"], reference.digest().to_string());
}

/// `explain` once told the web's roots, and the mirror was spoken to with the fetched ones.
#[test]
fn a_mirror_borrows_the_fetched_roots() {
    let world = World::start();
    let port = world.servers[0].port;
    let document = format!(
        "[registries.\"a.corp\"]\nca-certs-uri = \"kbs:///default/ca/test\"\n\
         mirror = \"https://localhost:{port}/cache\"\n"
    );
    let files = world.write_texts(&document, "");
    let image = reference("a.corp");
    let explained = run(&["explain", "--json", "--config", &files.configuration, &image]);
    let mirror = &explained.json()["mirror"];
    assert_eq!(mirror["roots_uri"], "kbs:///default/ca/test", "{mirror}");
    let text = run(&["explain", "--config", &files.configuration, &image]).stdout;
    assert!(text.contains("roots only those that \"ca-certs-uri\" of"), "{text}");
    let (asked, error) = world.pull(&files, &image);
    assert_eq!(asked.len(), 1, "the handshake succeeds: {error}");
    assert_eq!(asked[0].path, "/cache");
}
