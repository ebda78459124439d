//! From what a guest says to the rows that are not fine, and the exit code.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;

use super::*;
use crate::machine::Ended;
use crate::seen::{Agent, Disk, Driver, File, Policy, Pull, Seen, Socket};
use crate::surroundings::POLICY_MARK;
use crate::verdict::Verdict;

fn options(expect: &str) -> Options {
    let words = ["x", "--kernel", "k", "--initrd", "i", "--timeout", "60"];
    let added = ["--append", "configdev.allow_unverified_initdata=1"];
    let added = if expect == "refused" { &[][..] } else { &added };
    Options::parse_from(words.iter().chain(&["--expect", expect]).chain(added))
}

fn file(path: &str, mode: &str) -> File {
    let (path, mode, owner) = (path.to_owned(), mode.to_owned(), "0:0".to_owned());
    File { path, mode, owner, bytes: 9, reason: None }
}

fn disk(name: &str, magic: Option<&str>) -> Disk {
    let visible = magic != Some("initdata");
    let (name, magic) = (name.to_owned(), magic.map(str::to_owned));
    Disk { name, magic, read_only: true, visible }
}

fn policy(text: &str) -> Option<Policy> {
    let path = "/run/measured-cfg/policy.rego".to_owned();
    Some(Policy { path, text: Some(text.to_owned()), late_secs: None })
}

fn pull(answer: Result<&str, &str>) -> Option<Pull> {
    let is_there = answer.is_ok();
    Some(Pull {
        answer: answer.map(str::to_owned).map_err(str::to_owned),
        secs: 0.5,
        entries: if is_there { 2 } else { 0 },
        mounted: is_there.then(|| "overlay".to_owned()),
    })
}

fn broken(error: &str) -> Option<Driver> {
    Some(Driver { error: Some(error.to_owned()), ..Driver::default() })
}

/// A guest in which everything is right.
fn good() -> Seen {
    let socket = Socket {
        path: "/run/confidential-containers/cdh.sock".to_owned(),
        mode: Some("0600".to_owned()),
        ..Socket::default()
    };
    Seen {
        agent: Some(Agent { pid: 1, kernel: "6.1".to_owned(), clock_secs: 1_000_005 }),
        vsock: Some(Driver::default()),
        disks: vec![
            disk("vda", None),
            disk("vdb", Some("initdata")),
            disk("vdc", Some("imgpullr")),
        ],
        run: Some("tmpfs".to_owned()),
        policy: policy(&format!("{POLICY_MARK}\npackage agent_policy\n")),
        files: vec![
            file("/run/measured-cfg", "0755"),
            file("/run/measured-cfg/policy.rego", "0644"),
            file("/run/insecure-cfg", "0700"),
            file("/run/insecure-cfg/imagepuller.toml", "0600"),
        ],
        sockets: vec![socket],
        network: Some(Driver { interface: Some("eth0".to_owned()), ..Driver::default() }),
        pull: pull(Ok("sha256:1")),
        ..Seen::default()
    }
}

fn run_of(seen: Seen, ended: Ended) -> Run {
    Run {
        ended,
        seen,
        console: String::new(),
        elapsed: Duration::from_secs(9),
        clock_secs: (1_000_000, 1_000_010),
        first_word: None,
    }
}

fn rows(expect: &str, run: &Run) -> Vec<Row> {
    let around = Surroundings {
        image: Some("registry.test/a".to_owned()),
        digest: Some("sha256:1".to_owned()),
        document: (expect != "anonymous").then(PathBuf::new),
        initdata: Some(PathBuf::new()),
        own_initdata: true,
        registry: None,
        secret: Some("s3cret".to_owned()),
    };
    judge(&Case { options: &options(expect), around: &around, run })
}

/// Names of the rows that are not fine, and the exit code.
fn judged(expect: &str, run: &Run) -> (Vec<&'static str>, u8) {
    let rows = rows(expect, run);
    let verdict = Verdict { boot: None, rows, is_cut: run.is_cut(), secs: 0.0 };
    let findings = verdict.rows.iter().map(|row| &row.finding);
    let bad = findings.filter(|finding| finding.severity == Severity::Error);
    (bad.map(|finding| finding.id).collect(), verdict.code())
}

#[test]
fn nothing_is_said_of_a_good_guest() {
    let run = run_of(good(), Ended::Done);
    for row in rows("ready", &run) {
        assert_eq!(row.finding.severity, Severity::Ok, "{row:?}");
    }
    assert_eq!(judged("ready", &run), (vec![], 0));
}

#[test]
fn each_thing_that_is_wrong_has_its_row_and_its_code() {
    type Change = fn(&mut Seen);
    let rows: &[(&str, u8, Change)] = &[
        ("disks", 2, |seen| drop(seen.disks.pop())),
        ("vsock", 2, |seen| seen.vsock = broken("no virtio transport")),
        ("network", 2, |seen| seen.network = broken("there is no interface")),
        ("run", 5, |seen| seen.hides_results = true),
        ("clock", 5, |seen| seen.agent.as_mut().unwrap().clock_secs = 0),
        ("policy", 3, |seen| seen.policy = policy("# nothing may run in this guest: x")),
        ("processor", 3, |seen| {
            seen.files.push(file("/run/insecure-cfg/initdata.refused", "0600"));
        }),
        ("processor", 3, |seen| drop(seen.files.remove(0))),
        ("files", 3, |seen| seen.files[3].mode = "0644".to_owned()),
        ("files", 3, |seen| drop(seen.files.pop())),
        ("sockets", 4, |seen| seen.hub = Some(true)),
        ("sockets", 4, |seen| {
            seen.sockets[0].mode = None;
            seen.sockets[0].error = Some("it is not there".to_owned());
            seen.sockets[0].late_secs = Some(2.0);
        }),
        ("agent", 4, |seen| seen.ends = Some("there is no policy".to_owned())),
        ("pull", 6, |seen| seen.pull = pull(Err("401 Unauthorized"))),
        ("pull", 6, |seen| seen.pull = pull(Ok("sha256:2"))),
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
    let (bad, code) = judged(expect, &run_of(good(), Ended::Done));
    assert_eq!((bad, code), (vec!["processor", "policy", "pull"], 3));
    let mut seen = good();
    seen.policy = policy("# nothing may run in this guest: no TEE");
    seen.files[3] = file("/run/insecure-cfg/initdata.refused", "0600");
    seen.pull = pull(Err("initdata was refused"));
    let refused = run_of(seen, Ended::Done);
    assert_eq!(judged(expect, &refused), (vec![], 0));
    // No agent at all is as good, if that is why.
    let mut off = run_of(Seen::default(), Ended::Off);
    assert_eq!(judged(expect, &off), (vec!["boot"], 1));
    off.console = "init: initdata was refused, so there will be no agent".to_owned();
    assert_eq!(judged(expect, &off), (vec![], 0));
    assert_eq!(judged("ready", &off), (vec!["boot"], 1));
}

#[test]
fn limits_and_secrets() {
    let ready = "ready";
    let none = run_of(Seen::default(), Ended::Timeout);
    assert_eq!(judged(ready, &none), (vec!["boot"], 124));
    let (bad, code) = judged(ready, &run_of(good(), Ended::Console));
    assert!(bad.contains(&"limit") && code == 124, "{bad:?} {code}");
    let mut leaks = run_of(good(), Ended::Done);
    leaks.console = "password s3cret".to_owned();
    assert_eq!(judged(ready, &leaks), (vec!["secret"], 3));
}
