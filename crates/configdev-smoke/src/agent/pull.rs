//! The one connection of the agent, and a pull over it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use vm_harness::ttrpc::{call, field, fields, put};

use super::{Console, late, mounts};
use crate::seen::{MAX_TEXT_CHARS, Seen};

/// Where the agent wants the image; the name is that of a container.
const BUNDLE: &str = "/run/kata-containers/smoke";

/// The puller's own socket and that of the refresh of its disk.
const OTHERS: [&str; 2] =
    ["/run/guest-services/imagepull.socket", "/run/initdata-processor/imagepuller.socket"];

/// Connects as the agent does: if the socket is there now, or never. `starts_the_hub`: the agent
/// has taken the socket away or waits for another program's.
pub fn connect(socket: &str, starts_the_hub: bool, console: &mut Console) -> Option<UnixStream> {
    let mode = mode(socket);
    let mut late_secs = None;
    let connection = match (&mode, starts_the_hub) {
        (_, true) => Err("the agent starts the image's hub, and connects to nobody else".into()),
        (None, false) => {
            late_secs = late(|| Path::new(socket).exists());
            Err("it is not there".to_owned())
        }
        (Some(_), false) => UnixStream::connect(socket).map_err(|error| error.to_string()),
    };
    console.say(&Seen::Socket {
        path: socket.to_owned(),
        mode,
        error: connection.as_ref().err().cloned(),
        late_secs,
    });
    for path in OTHERS.iter().filter(|other| **other != socket) {
        console.say(&Seen::Socket {
            path: (*path).to_owned(),
            mode: self::mode(path),
            error: None,
            late_secs: None,
        });
    }
    connection.ok()
}

fn mode(path: &str) -> Option<String> {
    let stat = fs::metadata(path).ok()?;
    Some(format!("{:04o}", stat.permissions().mode() & 0o7777))
}

/// Asks for the image and looks at what is mounted then.
pub fn pull(image: &str, connection: Option<UnixStream>, limit: Duration, console: &mut Console) {
    let start = Instant::now();
    let answer = match connection {
        Some(connection) => ask(image, connection, limit),
        None => Err("the agent has no connection to ask over".to_owned()),
    };
    let rootfs = format!("{BUNDLE}/rootfs");
    let entries = fs::read_dir(&rootfs).map_or(0, Iterator::count);
    console.say(&Seen::Pull {
        digest: answer.as_ref().ok().cloned(),
        error: answer.err(),
        secs: start.elapsed().as_secs_f64(),
        entries,
        mounted: mounts::kind_at(&rootfs),
    });
}

fn ask(image: &str, mut connection: UnixStream, limit: Duration) -> Result<String, String> {
    let mut payload = Vec::new();
    put(&mut payload, 1, image.as_bytes());
    put(&mut payload, 2, BUNDLE.as_bytes());
    let answer = fs::create_dir_all(BUNDLE)
        .and_then(|()| connection.set_read_timeout(Some(limit)))
        .map_err(anyhow::Error::from)
        .and_then(|()| {
            let (service, method) = ("api.ImagePullService", "PullImage");
            call(&mut connection, service, method, &payload)
        })
        .and_then(|answer| fields(&answer));
    match answer {
        Ok(answer) => Ok(String::from_utf8_lossy(&field(&answer, 1)).into_owned()),
        Err(error) if is_late(&error) => Err(format!("no answer in {} s", limit.as_secs())),
        Err(error) => Err(format!("{error:#}").chars().take(MAX_TEXT_CHARS).collect()),
    }
}

/// Whether the connection's limit is what ended a call.
fn is_late(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref());
    let mut kinds = causes.map(io::Error::kind);
    kinds.any(|kind| kind == io::ErrorKind::WouldBlock)
}
