//! What the wrapper costs: a program that does nothing, started directly, through `exec` in a
//! shell, and through the wrapper with documents of several sizes.
//!
//! The programs take turns, so that whatever else the machine does meets all of them. `hack/bench`
//! runs this with the wrapper as it is shipped. Times are wall clock from `spawn` to the end, and
//! user plus system time of the child. Last, the time from a start to the answer that refuses the
//! sandbox on the monitor; the goal is 50 ms.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark")]

use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use vm_harness::vector::Vector;

#[path = "../tests/wrapper/node.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod node;
#[path = "../tests/wrapper/shims.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod shims;

use node::Node;
use shims::{GoShim, Heard, PATIENCE};

/// How often every program runs unless the environment's `BENCH_ROUNDS` says otherwise.
const ROUNDS: usize = 1000;

const NOTHING: &str = "/bin/true";

/// What happened to one program: milliseconds per run.
struct Contestant {
    name: &'static str,
    command: Command,
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Contestant {
    fn new(name: &'static str, mut command: Command) -> Self {
        command
            .args(Vector::read("go-snp-initdata").unwrap().arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self { name, command, wall: Vec::new(), cpu: Vec::new() }
    }

    fn run(&mut self) {
        let cpu = children_ms();
        let start = Instant::now();
        let status = self.command.status().unwrap();
        self.wall.push(start.elapsed().as_secs_f64() * 1e3);
        self.cpu.push(children_ms() - cpu);
        assert!(status.success(), "{}", self.name);
    }
}

/// User and system time of all children that ended so far.
fn children_ms() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3)
        .sum()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A document of at least `bytes` bytes: entries with a certificate and a token each, and no two
/// alike.
fn document(bytes: usize) -> String {
    let certificate = rcgen::generate_simple_self_signed(["registry.corp".to_owned()]).unwrap();
    let certificate = certificate.cert.pem();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::new();
    for entry in 0.. {
        let token: String = (0..48)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                format!("{:02x}", state as u8)
            })
            .collect();
        let entry = format!(
            "[registries.\"registry-{entry}.corp\"]\nusername = \"robot\"\npassword = \"{token}\"\n\
             ca-certs = \"\"\"\n{certificate}\"\"\"\n\n"
        );
        if !text.is_empty() && text.len() + entry.len() > bytes {
            break;
        }
        text += &entry;
    }
    text
}

/// Milliseconds from the start of `wrapper` to its answer, whose document is not valid.
fn refusal(node: &Node, wrapper: Command) -> f64 {
    let mut shim = GoShim::start(node, wrapper);
    assert!(matches!(shim.waits(PATIENCE), Heard::Error(_)));
    let answered = shim.started.elapsed().as_secs_f64() * 1e3;
    shim.ends();
    answered
}

fn main() {
    let rounds = std::env::var("BENCH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let nodes =
        [("wrapper, 1 KiB", 1 << 10), ("wrapper, 64 KiB", 64 << 10)].map(|(name, bytes)| {
            let node = Node::new(NOTHING);
            let text = document(bytes);
            node.write("document.toml", &text);
            (name, node)
        });
    nodes[0].1.write("shell", format!("#!/bin/sh\nexec {NOTHING} \"$@\"\n"));
    nodes[0].1.set_mode("shell", 0o700);
    // A copy, as an installed one is: what the linker wrote piecemeal lies in the page cache in
    // single pages, and every start pays for that.
    let wrapper = nodes[0].1.path("wrapper");
    std::fs::copy(env!("CARGO_BIN_EXE_kata-configdev-qemu"), &wrapper).unwrap();
    let wrapper = |node: &Node| {
        let mut command = Command::new(&wrapper);
        node.place(&mut command);
        command
    };
    let passing = Node::new(NOTHING);
    passing.annotate("");

    let mut contestants = vec![
        Contestant::new("direct", Command::new(NOTHING)),
        Contestant::new("shell wrapper", Command::new(nodes[0].1.path("shell"))),
        Contestant::new("wrapper, no disk", wrapper(&passing)),
    ];
    for (name, node) in &nodes {
        contestants.push(Contestant::new(name, wrapper(node)));
    }
    let refused = Node::new(NOTHING);
    refused.write("document.toml", "no-such-key = 1\n");
    let mut answers = Vec::new();
    for _ in 0..rounds {
        for contestant in &mut contestants {
            contestant.run();
        }
        let mut command = wrapper(&refused);
        command.args(["-name", "sandbox-0123", "-machine", "q35"]);
        answers.push(refusal(&refused, command));
    }

    println!("medians of {rounds} runs, in turns; ms");
    println!(
        "{:<18}{:>8}{:>10}{:>10}{:>8}{:>10}",
        "", "wall", "/ direct", "/ shell", "cpu", "- direct"
    );
    let medians: Vec<_> = contestants
        .iter_mut()
        .map(|one| (one.name, median(&mut one.wall), median(&mut one.cpu)))
        .collect();
    let (_, direct, direct_cpu) = medians[0];
    let (_, shell, _) = medians[1];
    for (name, wall, cpu) in &medians {
        println!(
            "{name:<18}{wall:>8.3}{:>10.2}{:>10.2}{cpu:>8.3}{:>10.3}",
            wall / direct,
            wall / shell,
            cpu - direct_cpu
        );
    }
    println!("refusal: answered on the monitor after {:.3}", median(&mut answers));
}
