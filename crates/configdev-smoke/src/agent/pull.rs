//! The guest components that the agent starts before it connects (`launch_process` and
//! `launch_plan` of Kata 4.1), its one connection, and a pull over it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use vm_harness::ttrpc::{call, field, fields, put};

use super::{Console, files, late};
use crate::no_boot::hub::{KEY, configured};
use crate::no_boot::parameter;
use crate::options::CDH_SOCKET;
use crate::seen::{MAX_TEXT_CHARS, Pull, Socket};

/// Where the agent wants the image; the name is that of a container.
const BUNDLE: &str = "/run/kata-containers/smoke";

/// The puller's own socket and that of the refresh of its disk.
const OTHERS: [&str; 2] =
    ["/run/guest-services/imagepull.socket", "/run/initdata-processor/imagepuller.socket"];

/// Where the agent starts the data hub from; it removes [`CDH_SOCKET`] before.
const HUB: &str = "/usr/local/bin/confidential-data-hub";

/// Connects as the agent does: if the socket is there now, or never. Not where it has taken the
/// socket away, or waits for another program's.
pub fn connect(socket: &str, console: &mut Console) -> Option<UnixStream> {
    let starts_the_hub = starts_the_hub(socket, console);
    let mode = files::mode(socket);
    let mut late_secs = None;
    let connection = match &mode {
        _ if starts_the_hub => {
            Err("the agent starts the image's hub, and connects to nobody else".to_owned())
        }
        None => {
            late_secs = late(|| Path::new(socket).exists());
            Err("it is not there".to_owned())
        }
        Some(_) => UnixStream::connect(socket).map_err(|error| error.to_string()),
    };
    let error = connection.as_ref().err().cloned();
    let mut sockets = vec![Socket { path: socket.to_owned(), mode, error, late_secs }];
    sockets.extend(OTHERS.iter().filter(|other| **other != socket).map(|other| {
        let (path, mode) = ((*other).to_owned(), files::mode(other));
        Socket { path, mode, ..Socket::default() }
    }));
    console.say("sockets", &sockets);
    connection.ok()
}

/// Does what the agent does with the hub's socket. Whether the agent then makes no connection.
fn starts_the_hub(socket: &str, console: &mut Console) -> bool {
    let processes = processes();
    if socket != CDH_SOCKET || matches!(processes.as_deref(), Some("none" | "attestation-agent")) {
        return false;
    }
    let is_there = fs::metadata(HUB).is_ok_and(|stat| stat.permissions().mode() & 0o111 != 0);
    console.say("hub", &is_there);
    if is_there {
        // Then it starts the hub, which makes its own.
        let _ = fs::remove_file(socket);
    }
    true
}

/// `agent.guest_components_procs`: from the file that the agent is given, or from the kernel's
/// parameters, of which the last counts.
fn processes() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    let config = arguments.find(|argument| argument == "--config" || argument == "-c");
    if let Some(path) = config.and_then(|_| arguments.next()) {
        return configured(&fs::read_to_string(path).unwrap_or_default())?;
    }
    let parameters = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    parameter(&parameters, KEY).map(str::to_owned)
}

/// Asks for the image and looks at what is mounted then.
pub fn pull(image: &str, connection: Option<UnixStream>, limit: Duration) -> Pull {
    let start = Instant::now();
    let answer = match connection {
        Some(connection) => ask(image, connection, limit),
        None => Err("the agent has no connection to ask over".to_owned()),
    };
    let rootfs = format!("{BUNDLE}/rootfs");
    Pull {
        answer,
        secs: start.elapsed().as_secs_f64(),
        entries: fs::read_dir(&rootfs).map_or(0, Iterator::count),
        mounted: files::mounted_at(&rootfs),
    }
}

fn ask(image: &str, mut connection: UnixStream, limit: Duration) -> Result<String, String> {
    let mut payload = Vec::new();
    put(&mut payload, 1, image.as_bytes());
    put(&mut payload, 2, BUNDLE.as_bytes());
    let answer = fs::create_dir_all(BUNDLE)
        .and_then(|()| connection.set_read_timeout(Some(limit)))
        .map_err(anyhow::Error::from)
        .and_then(|()| call(&mut connection, "api.ImagePullService", "PullImage", &payload))
        .and_then(|answer| fields(&answer));
    match answer {
        Ok(answer) => Ok(String::from_utf8_lossy(&field(&answer, 1)).into_owned()),
        Err(error) if is_late(&error) => Err(format!("no answer in {} s", limit.as_secs())),
        Err(error) => Err(format!("{error:#}").chars().take(MAX_TEXT_CHARS).collect()),
    }
}

/// Whether the connection's limit is what ended a call.
fn is_late(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::WouldBlock)
}
