//! From what a guest says to the rows that are not fine, and the exit code.

use std::path::PathBuf;

use clap::Parser as _;

use super::*;
use crate::seen::Seen;
use crate::verdict::Verdict;

fn options(expect: &str) -> Options {
    let words = ["x", "--kernel", "k", "--initrd", "i", "--timeout", "60"];
    let added = ["--append", "configdev.allow_unverified_initdata=1"];
    let added = if expect == "refused" { &[][..] } else { &added };
    Options::parse_from(words.iter().chain(&["--expect", expect]).chain(added))
}

fn policy(text: &str) -> Option<(String, Option<String>)> {
    Some((POLICY.to_owned(), Some(text.to_owned())))
}

fn bad(error: &str) -> Part {
    Some(Err(error.to_owned()))
}

/// A guest in which everything is right.
fn good() -> Seen {
    let texts = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    let fine = |text: &str| Some(Ok(text.to_owned()));
    Seen {
        clock_secs: Some(1_000_005),
        vsock: fine(""),
        run: fine(""),
        disks: texts(&["vda", "vdb (initdata)", "vdc (imgpullr)"]),
        files: texts(&["/run/measured-cfg", POLICY, "/run/insecure-cfg", DOCUMENT]),
        policy: policy(&format!("{POLICY_MARK}\npackage agent_policy\n")),
        socket: fine(""),
        network: fine("eth0"),
        pull: fine("sha256:1"),
        mounted: Some("overlay".to_owned()),
        ..Seen::default()
    }
}

fn run_of(seen: Seen, ended: Ended) -> Run {
    Run { ended, seen, console: String::new(), clock_secs: (1_000_000, 1_000_010) }
}

fn verdict(expect: &str, run: &Run) -> Verdict {
    let around = Surroundings {
        image: Some("registry.test/a".to_owned()),
        digest: Some("sha256:1".to_owned()),
        document: (expect != "anonymous").then(PathBuf::new),
        initdata: Some(PathBuf::new()),
        registry: None,
        secret: Some("s3cret".to_owned()),
    };
    let rows = judge(&Case { options: &options(expect), around: &around, run });
    Verdict { suite: String::new(), rows }
}

/// Names of the rows that failed, and the exit code.
fn judged(expect: &str, run: &Run) -> (Vec<&'static str>, u8) {
    let verdict = verdict(expect, run);
    let findings = verdict.rows.iter().map(|(_, finding)| finding);
    let bad = findings.filter(|finding| finding.severity == Severity::Error);
    (bad.map(|finding| finding.id).collect(), verdict.code())
}

#[test]
fn nothing_is_said_of_a_good_guest() {
    let rows = verdict("ready", &run_of(good(), Ended::Done)).rows;
    assert_eq!(rows.len(), 11);
    assert!(rows.iter().all(|(_, finding)| finding.severity == Severity::Ok), "{rows:?}");
}

#[test]
fn each_thing_that_is_wrong_has_its_row_and_its_code() {
    type Change = fn(&mut Seen);
    let rows: &[(&str, u8, Change)] = &[
        ("disks", 2, |seen| drop(seen.disks.as_mut().unwrap().pop())),
        ("vsock", 2, |seen| seen.vsock = bad("no virtio transport")),
        ("network", 2, |seen| seen.network = bad("there is no interface")),
        ("run", 5, |seen| seen.run = bad("an empty tmpfs")),
        ("clock", 5, |seen| seen.clock_secs = Some(0)),
        ("policy", 3, |seen| seen.policy = policy("# nothing may run in this guest: x")),
        ("policy", 3, |seen| seen.policy = Some((POLICY.to_owned(), None))),
        ("processor", 3, |seen| {
            seen.files.as_mut().unwrap().push("/run/insecure-cfg/initdata.refused".to_owned());
        }),
        ("processor", 3, |seen| drop(seen.files.as_mut().unwrap().remove(0))),
        ("files", 3, |seen| drop(seen.files.as_mut().unwrap().pop())),
        ("files", 3, |seen| seen.reason = "line 1".to_owned()),
        ("sockets", 4, |seen| seen.socket = bad("the agent starts a hub")),
        ("pull", 6, |seen| seen.pull = bad("401 Unauthorized")),
        ("pull", 6, |seen| seen.pull = Some(Ok("sha256:2".to_owned()))),
        ("pull", 6, |seen| seen.mounted = None),
    ];
    for (name, code, change) in rows {
        let mut seen = good();
        change(&mut seen);
        let judged = judged("ready", &run_of(seen, Ended::Done));
        assert_eq!(judged, (vec![*name], *code), "{name}");
    }
}

#[test]
fn a_guest_that_is_to_be_refused() {
    let expect = "refused";
    // It accepts what nothing verifies.
    let (bad_rows, code) = judged(expect, &run_of(good(), Ended::Done));
    assert_eq!((bad_rows, code), (vec!["processor", "policy", "pull"], 3));
    let mut seen = good();
    seen.policy = policy("# nothing may run in this guest: no TEE");
    seen.files.as_mut().unwrap()[3] = "/run/insecure-cfg/initdata.refused".to_owned();
    (seen.pull, seen.mounted) = (bad("initdata was refused"), None);
    assert_eq!(judged(expect, &run_of(seen, Ended::Done)), (vec![], 0));
    // No agent at all is as good, if that is why.
    let mut off = run_of(Seen::default(), Ended::Off);
    assert_eq!(judged(expect, &off), (vec!["boot"], 1));
    off.console = "init: initdata was refused, so there will be no agent".to_owned();
    assert_eq!(judged(expect, &off), (vec![], 0));
    assert_eq!(judged("ready", &off), (vec!["boot"], 1));
}

#[test]
fn limits_and_secrets() {
    let none = run_of(Seen::default(), Ended::Timeout);
    assert_eq!(judged("ready", &none), (vec!["boot"], 124));
    assert_eq!(judged("ready", &run_of(good(), Ended::Console)), (vec!["boot"], 124));
    let mut leaks = run_of(good(), Ended::Done);
    leaks.console = "password s3cret".to_owned();
    assert_eq!(judged("ready", &leaks), (vec!["secret"], 3));
}
