//! A credential provider for tests; its first argument says how it behaves.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::zombie_processes,
    reason = "test code"
)]

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const ANSWER: &str = "{\"kind\":\"CredentialProviderResponse\",\
    \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"Registry\",\
    \"cacheDuration\":\"5m\",\
    \"auth\":{\"reg.corp\":{\"username\":\"robot\",\"password\":\"hunter2-rust\"}}}";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut question = String::new();
    std::io::stdin().read_to_string(&mut question).unwrap();
    eprintln!("hunter2-stderr {question}");
    match arguments[1].as_str() {
        "good" => println!("{ANSWER}"),
        "slow" => {
            std::thread::sleep(Duration::from_millis(300));
            println!("{ANSWER}");
        }
        // In pieces, each flushed.
        "pieces" => {
            for byte in ANSWER.bytes() {
                std::io::stdout().write_all(&[byte]).unwrap();
                std::io::stdout().flush().unwrap();
            }
        }
        "fails-after-answer" => {
            println!("{ANSWER}");
            std::process::exit(3);
        }
        "aborts" => {
            println!("{ANSWER}");
            std::process::abort();
        }
        "junk" => println!("hunter2-junk"),
        "version" => println!("{}", ANSWER.replace("/v1", "/v1beta1")),
        "much" => {
            let block = [b' '; 65536];
            for _ in 0..160 {
                // Nobody reads it to its end.
                if std::io::stdout().write_all(&block).is_err() {
                    break;
                }
            }
            println!("{ANSWER}");
        }
        // Ignores SIGTERM, and so does what it started, which keeps the output open.
        "hangs" => {
            grandchild(&arguments[2]);
            std::thread::sleep(Duration::from_secs(3600));
        }
        // Answers and ends, but what it started keeps the output open.
        "leaves-a-process" => {
            grandchild(&arguments[2]);
            println!("{ANSWER}");
        }
        // Joins the group of its caller, where killing its own group does not reach it.
        "leaves-its-group" => {
            let group = group_of(std::os::unix::process::parent_id());
            let file = &arguments[2];
            let script = format!("echo $$ > {file}.new; mv {file}.new {file}; exec sleep 120");
            panic!("{}", Command::new("/bin/sh").args(["-c", &script]).process_group(group).exec());
        }
        other => panic!("no behaviour {other}"),
    }
}

/// The process group of a process.
fn group_of(pid: u32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    // After the state and the parent.
    rest.split_whitespace().nth(2).unwrap().parse().unwrap()
}

/// Starts a process that outlives this one and ignores SIGTERM; its id is in `file` when this
/// returns.
fn grandchild(file: &str) {
    let script = format!(
        "trap '' TERM; echo $$ > {file}.new; mv {file}.new {file}; while :; do \
    sleep 1; done"
    );
    Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    while !std::path::Path::new(file).exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
