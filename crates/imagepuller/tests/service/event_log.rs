//! What verifiers can read of a guest: its images and the host's documents, in the event log of an
//! attestation agent.

use std::fs;
use std::path::Path;

use confidential_fixtures::{AttestationAgent, EventLog};
use registry_config::Document;

use crate::support::{Puller, Site, Tmpfs, wait_until};
use rustix::mount::{UnmountFlags, unmount};

/// An agent in the place where the service looks for it, instead of the one that is there.
fn agent(directory: &Path, event_log: EventLog) -> AttestationAgent {
    let socket = directory.join("next.sock");
    let agent = AttestationAgent::start(&socket, event_log).unwrap();
    fs::rename(socket, directory.join("aa.sock")).unwrap();
    agent
}

fn loaded(document: &str) -> String {
    let record = Document::parse(document.as_bytes()).unwrap().document.record();
    format!(r#"kata-configdev LoadDocument {{"document":"{record}"}}"#)
}

/// As CoCo's data hub writes it, with the reference as it was asked for.
fn pulled(image: &str) -> String {
    let (_, digest) = image.split_once('@').unwrap();
    format!(
        r#"github.com/confidential-containers PullImage {{"image":"{image}", "digest":"{digest}"}}"#
    )
}

#[test]
fn privileged_the_log_has_each_pull_and_each_new_document() {
    vm_harness::needs_root!();
    let site = Site::start();
    let image = site.image();
    let of = |password: &str| {
        let other = format!("\n[registries.r]\nusername = \"robot\"\npassword = \"{password}\"\n");
        site.document("localhost") + &other
    };
    let mut puller = Puller::start(&site.scratch, Some(&of("one")));
    let directory = puller.document().parent().unwrap().to_owned();
    puller.pull(&image, "nobody-listens");

    // What could not be recorded before is recorded now.
    let kept = agent(&directory, EventLog::Kept);
    let tagged = image.replace("@", ":1.2@");
    puller.pull(&tagged, "c1");
    let mut expected = vec![loaded(&of("one")), pulled(&tagged)];
    assert_eq!(kept.log(), expected);
    // Another secret is no other document.
    assert_eq!(loaded(&of("one")), loaded(&of("another")));
    puller.configure(&of("another"));
    puller.pull(&image, "c2");
    expected.push(pulled(&image));
    assert_eq!(kept.log(), expected);
    let short = site.document("localhost");
    puller.configure(&short);
    puller.pull(&image, "c3");
    expected.extend([loaded(&short), pulled(&image)]);
    assert_eq!(kept.log(), expected);
    // Before a document is used, and so where its pull fails.
    fs::remove_file(puller.document()).unwrap();
    puller.forget_documents();
    puller.refuse(&image, 69, &["no entry of "]);
    expected.push("kata-configdev LoadDocument {\"document\":\"none\"}".to_owned());
    assert_eq!(kept.log(), expected);
    puller.configure("nonsense");
    puller.refuse(&image, 65, &["line 1"]);
    assert_eq!(kept.log(), expected, "nothing is done with it");

    // A service that starts does not wait for a pull.
    puller.kill();
    puller.configure(&short);
    puller.restart();
    wait_until(|| puller.log(), || kept.log().len() > expected.len());
    expected.push(loaded(&short));
    assert_eq!(kept.log(), expected);
}

/// Each store of a service once had a log of its own, and told of the same document again.
#[test]
fn privileged_a_document_is_told_of_once_whatever_is_mounted_over_the_store() {
    vm_harness::needs_root!();
    let site = Site::start();
    let image = site.image();
    let document = site.document("localhost");
    let puller = Puller::start(&site.scratch, Some(&document));
    let directory = puller.document().parent().unwrap().to_owned();
    let kept = agent(&directory, EventLog::Kept);
    let one = puller.pull(&image, "one");
    let expected = vec![loaded(&document), pulled(&image), pulled(&image)];
    assert_eq!(kept.log(), expected[..2]);
    let place = puller.store("").parent().unwrap().to_owned();
    let over = Tmpfs::mount(place, c"mode=700");
    let two = puller.pull(&image, "two");
    assert_eq!(kept.log(), expected);
    for rootfs in [one, two] {
        unmount(&rootfs, UnmountFlags::DETACH).unwrap();
    }
    drop(over);
}

/// Where nobody listens a pull goes on, too: the first test.
#[test]
fn privileged_a_pull_goes_on_without_a_log_and_fails_with_one_that_fails() {
    vm_harness::needs_root!();
    let site = Site::start();
    let image = site.image();
    let puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let directory = puller.document().parent().unwrap().to_owned();
    for event_log in [EventLog::Off, EventLog::Unsupported] {
        let agent = agent(&directory, event_log);
        puller.pull(&image, &format!("{event_log:?}"));
        assert!(agent.log().is_empty(), "{event_log:?}");
    }
    let broken = agent(&directory, EventLog::Broken);
    let failed = "aa.sock answered with ttrpc status 13: the attestation agent's own log says why";
    puller.refuse(&image, 69, &[failed, "nothing is mounted"]);
    // Only the entry of the pull fails, or has no log any more.
    let kept = agent(&directory, EventLog::Kept);
    puller.pull(&image, "kept");
    assert_eq!(kept.log().len(), 2);
    drop(broken);
    let _broken = agent(&directory, EventLog::Broken);
    puller.refuse(&image, 69, &[failed, "nothing is mounted"]);
    let _off = agent(&directory, EventLog::Off);
    puller.refuse(&image, 69, &["leave the event log off, and it has recorded before"]);
}
