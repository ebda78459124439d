//! Kata's runtimes, as far as they deal with the monitor of their hypervisor.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use serde_json::Value;

use super::node::Node;

/// So long a test waits for what a runtime waits for without a limit.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a runtime gets to know.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// QEMU is ready.
    Ready,
    /// The first command failed with these words.
    Error(String),
    /// Nobody listens, or nobody listens any more.
    Lost,
    /// Nothing, for so long.
    Nothing,
}

/// Greeting, first command, answer; as much as both runtimes' clients ask for.
fn begin(stream: &UnixStream, patience: Duration) -> Heard {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut lines = BufReader::new(stream);
    let mut message = || {
        let mut line = String::new();
        match lines.read_line(&mut line) {
            Ok(0) => Err(Heard::Lost),
            Ok(_) => Ok(serde_json::from_str::<Value>(&line).expect("JSON")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Heard::Nothing),
            Err(_) => Err(Heard::Lost),
        }
    };
    let mut dialogue = || {
        let greeting = message()?;
        let major = &greeting["QMP"]["version"]["qemu"]["major"];
        assert!(major.as_u64() >= Some(5), "{greeting}");
        assert!(greeting["QMP"]["capabilities"].is_array(), "{greeting}");
        let mut client = stream;
        client.write_all(b"{\"execute\":\"qmp_capabilities\"}\n").map_err(|_| Heard::Lost)?;
        let answer = message()?;
        Ok(match answer["error"]["desc"].as_str() {
            Some(text) => Heard::Error(text.into()),
            None => Heard::Ready,
        })
    };
    dialogue().unwrap_or_else(|heard| heard)
}

/// Starts `command` with the monitor `listener` as descriptor `number`.
fn start(mut command: Command, listener: &UnixListener, number: i32, log: Stdio) -> Child {
    let monitor = format!("unix:fd={number},server=on,wait=off");
    command
        .args(["-qmp", &monitor])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .fd_mappings(vec![FdMapping {
            parent_fd: OwnedFd::from(listener.try_clone().unwrap()),
            child_fd: number,
        }])
        .unwrap();
    command.spawn().unwrap()
}

/// The Go runtime: connected to its own listener before it starts the hypervisor, and holding it to
/// the end.
pub struct GoShim {
    path: PathBuf,
    _listener: UnixListener,
    connections: Vec<UnixStream>,
    child: Child,
    pub started: Instant,
}

impl GoShim {
    pub fn start(node: &Node, command: Command) -> Self {
        Self::start_with_log(node, command, Stdio::piped())
    }

    pub fn start_with_log(node: &Node, command: Command, log: Stdio) -> Self {
        let path = node.path("qmp.sock");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let connections = vec![UnixStream::connect(&path).unwrap()];
        let started = Instant::now();
        let child = start(command, &listener, 3, log);
        Self { path, _listener: listener, connections, child, started }
    }

    /// Connects once more, which the runtime never does.
    pub fn dials(&mut self) {
        self.connections.push(UnixStream::connect(&self.path).unwrap());
    }

    /// Sends something else than the first command, or hangs up.
    pub fn says(&mut self, words: Option<&[u8]>) {
        match words {
            // May be refused in the middle.
            Some(words) => drop(self.connections[0].write_all(words)),
            None => self.connections.clear(),
        }
    }

    /// Waits on the last connection for the hypervisor.
    pub fn waits(&mut self, patience: Duration) -> Heard {
        begin(self.connections.last().unwrap(), patience)
    }

    /// What became of the hypervisor, and when.
    pub fn ends(self) -> (Duration, Output) {
        let output = self.child.wait_with_output().unwrap();
        (self.started.elapsed(), output)
    }
}

/// The Rust runtime: it closes its own listener when the hypervisor is started, and asks on until
/// `patience` is over. What it heard first and last, and the hypervisor.
pub fn rust_shim(node: &Node, command: Command, patience: Duration) -> ([Heard; 2], Child) {
    let path = node.path("qmp.sock");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let child = start(command, &listener, 13, Stdio::piped());
    drop(listener);
    let until = Instant::now() + patience;
    let ask = || match UnixStream::connect(&path) {
        Ok(stream) => begin(&stream, Duration::from_secs(5)),
        Err(_) => Heard::Lost,
    };
    let first = ask();
    let mut last = ask();
    while last != Heard::Ready && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        last = ask();
    }
    ([first, last], child)
}
