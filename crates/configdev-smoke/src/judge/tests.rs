//! From what a guest says to the rows that are not fine, and the exit code.

use std::time::Duration;

use super::*;
use crate::surroundings::POLICY_MARK;

fn case(expect: Expect) -> Case {
    Case {
        expect,
        has_initdata: true,
        own_initdata: true,
        adds_unverified: false,
        has_document: expect != Expect::Anonymous,
        has_image: true,
        digest: Some("sha256:1".to_owned()),
        secret: Some("s3cret".to_owned()),
        clock_secs: (1_000_000, 1_000_010),
        timeout: 60,
    }
}

fn file(path: &str, mode: &str) -> Seen {
    Seen::File {
        path: path.to_owned(),
        mode: mode.to_owned(),
        owner: "0:0".to_owned(),
        bytes: 9,
        reason: None,
    }
}

fn disk(name: &str, magic: Option<&str>) -> Seen {
    Seen::Disk {
        name: name.to_owned(),
        magic: magic.map(str::to_owned),
        read_only: true,
        visible: magic != Some("initdata"),
    }
}

fn socket(path: &str) -> Seen {
    Seen::Socket {
        path: path.to_owned(),
        mode: Some("0600".to_owned()),
        error: None,
        late_secs: None,
    }
}

fn policy(text: &str) -> Seen {
    Seen::Policy {
        path: "/run/measured-cfg/policy.rego".to_owned(),
        text: Some(text.to_owned()),
        late_secs: None,
    }
}

fn pull(digest: Option<&str>, error: Option<&str>) -> Seen {
    let is_there = error.is_none();
    Seen::Pull {
        digest: digest.map(str::to_owned),
        error: error.map(str::to_owned),
        secs: 0.5,
        entries: if is_there { 2 } else { 0 },
        mounted: is_there.then(|| "overlay".to_owned()),
    }
}

/// A guest in which everything is right.
fn good() -> Vec<Seen> {
    vec![
        Seen::Agent {
            pid: 1,
            kernel: "6.1".to_owned(),
            policy_file: Some("/run/measured-cfg/policy.rego".to_owned()),
            processes: Some("none".to_owned()),
            clock_secs: 1_000_005,
        },
        Seen::Run { kind: Some("tmpfs".to_owned()), by_agent: false },
        disk("vda", None),
        disk("vdb", Some("initdata")),
        disk("vdc", Some("imgpullr")),
        policy(&format!("{POLICY_MARK}\npackage agent_policy\n")),
        file("/run/measured-cfg", "0755"),
        file("/run/measured-cfg/policy.rego", "0644"),
        file("/run/insecure-cfg", "0700"),
        file("/run/insecure-cfg/imagepuller.toml", "0600"),
        socket("/run/confidential-containers/cdh.sock"),
        Seen::Network { interface: Some("eth0".to_owned()), loaded: false, error: None },
        pull(Some("sha256:1"), None),
        Seen::Done,
        Seen::Vsock { loaded: false, error: None },
    ]
}

fn run_of(seen: Vec<Seen>, ended: Ended) -> Run {
    Run {
        ended,
        seen: seen.into_iter().map(|seen| (3.0, seen)).collect(),
        console: String::new(),
        elapsed: Duration::from_secs(9),
        output: String::new(),
        first_word: None,
    }
}

/// Names of the rows that are not fine, and the exit code.
fn judged(case: &Case, run: &Run) -> (Vec<&'static str>, u8) {
    let rows = judge(case, run, Ok(Vec::new()));
    let bad = rows.iter().filter(|row| row.state == State::Failed);
    (bad.map(|row| row.name).collect(), exit_code(&rows, &run.ended))
}

#[test]
fn nothing_is_said_of_a_good_guest() {
    let run = run_of(good(), Ended::Done);
    let rows = judge(&case(Expect::Ready), &run, Ok(Vec::new()));
    for row in &rows {
        assert_eq!(row.state, State::Fine, "{row:?}");
    }
    assert_eq!(exit_code(&rows, &run.ended), 0);
}

#[test]
fn each_thing_that_is_wrong_has_its_row_and_its_code() {
    type Change = fn(&mut Vec<Seen>);
    let rows: &[(&str, u8, Change)] = &[
        ("disks", 2, |seen| seen.retain(|one| *one != disk("vdc", Some("imgpullr")))),
        ("vsock", 2, |seen| {
            seen[14] = Seen::Vsock { loaded: false, error: Some("no virtio transport".to_owned()) };
        }),
        ("network", 2, |seen| {
            seen[11] = Seen::Network {
                interface: None,
                loaded: false,
                error: Some("there is no interface".to_owned()),
            };
        }),
        ("run", 5, |seen| {
            seen[1] = Seen::Run { kind: Some("tmpfs".to_owned()), by_agent: true };
        }),
        ("clock", 5, |seen| {
            if let Seen::Agent { clock_secs, .. } = &mut seen[0] {
                *clock_secs = 0;
            }
        }),
        ("policy", 3, |seen| seen[5] = policy("# nothing may run in this guest: x")),
        ("processor", 3, |seen| {
            seen.push(file("/run/insecure-cfg/initdata.refused", "0600"));
        }),
        ("processor", 3, |seen| seen.retain(|one| *one != file("/run/measured-cfg", "0755"))),
        ("files", 3, |seen| seen[9] = file("/run/insecure-cfg/imagepuller.toml", "0644")),
        ("files", 3, |seen| {
            seen.retain(|one| *one != file("/run/insecure-cfg/imagepuller.toml", "0600"));
        }),
        ("sockets", 4, |seen| seen.insert(10, Seen::Hub { is_there: true })),
        ("sockets", 4, |seen| {
            seen[10] = Seen::Socket {
                path: "/run/confidential-containers/cdh.sock".to_owned(),
                mode: None,
                error: Some("it is not there".to_owned()),
                late_secs: Some(2.0),
            };
        }),
        ("pull", 6, |seen| seen[12] = pull(None, Some("401 Unauthorized"))),
        ("pull", 6, |seen| seen[12] = pull(Some("sha256:2"), None)),
    ];
    for (name, code, change) in rows {
        let mut seen = good();
        change(&mut seen);
        let judged = judged(&case(Expect::Ready), &run_of(seen, Ended::Done));
        assert_eq!(judged, (vec![*name], *code), "{name}");
    }
}

#[test]
fn a_guest_that_is_to_be_refused() {
    let expect = case(Expect::Refused);
    // It accepts what nothing verifies.
    let (bad, code) = judged(&expect, &run_of(good(), Ended::Done));
    assert_eq!((bad, code), (vec!["processor", "policy", "pull"], 3));
    let mut seen = good();
    seen[5] = policy("# nothing may run in this guest: no TEE");
    seen[9] = file("/run/insecure-cfg/initdata.refused", "0600");
    seen[12] = pull(None, Some("initdata was refused"));
    let refused = run_of(seen, Ended::Done);
    assert_eq!(judged(&expect, &refused), (vec![], 0));
    // No agent at all is as good, if that is why.
    let mut off = run_of(Vec::new(), Ended::Off);
    assert_eq!(judged(&expect, &off), (vec!["boot"], 1));
    off.console = "init: initdata was refused, so there will be no agent".to_owned();
    assert_eq!(judged(&expect, &off), (vec![], 0));
    assert_eq!(judged(&case(Expect::Ready), &off), (vec!["boot"], 1));
}

#[test]
fn limits_and_secrets() {
    let ready = case(Expect::Ready);
    let none = run_of(Vec::new(), Ended::Timeout);
    assert_eq!(judged(&ready, &none), (vec!["boot"], 124));
    let mut seen = good();
    seen.truncate(6);
    let (bad, code) = judged(&ready, &run_of(seen, Ended::Console));
    assert!(bad.contains(&"limit") && code == 124, "{bad:?} {code}");
    let mut leaks = run_of(good(), Ended::Done);
    leaks.console = "password s3cret".to_owned();
    assert_eq!(judged(&ready, &leaks), (vec!["secret"], 3));
}

#[test]
fn findings_count_less_than_what_was_seen() {
    let finding = |level: &str| Finding {
        level: level.to_owned(),
        subject: "kernel".to_owned(),
        text: "x".to_owned(),
    };
    let run = run_of(good(), Ended::Done);
    for (found, code) in [
        (Ok(vec![finding("warning")]), 0),
        (Ok(vec![finding("error")]), 7),
        (Err("not asked".to_owned()), 0),
    ] {
        let rows = judge(&case(Expect::Ready), &run, found);
        assert_eq!(exit_code(&rows, &run.ended), code);
    }
}
