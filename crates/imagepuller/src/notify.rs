//! Tells the service manager (systemd) that the service is ready, alive or stopping.
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent. A manager that does not listen does
//! not keep the service from serving.

use std::fmt::Write as _;
use std::path::Path;

use foreign_text::shown;
use sd_notify::NotifyState;

/// The sockets listen: what was ordered after this service may connect to them.
pub fn ready<'a>(sockets: impl Iterator<Item = &'a Path>) {
    let mut status = String::from("listening on");
    for socket in sockets {
        // The name may have line feeds, which would begin another message.
        let _ = write!(status, " {}", shown(socket.as_os_str().as_encoded_bytes()));
    }
    send(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// No more calls are taken; those that run may end.
pub fn stopping() {
    send(&[NotifyState::Stopping, NotifyState::Status("waiting for pulls to end")]);
}

/// Says that the service is alive, twice in the time that the manager allows, if it wants to know
/// at all. Does not end: what runs beside it, and no longer gets its turn, would let it fall
/// silent.
pub async fn alive() {
    let Some(allowed) = sd_notify::watchdog_enabled().filter(|time| !time.is_zero()) else {
        return std::future::pending().await;
    };
    let mut turns = tokio::time::interval(allowed / 2);
    loop {
        turns.tick().await;
        send(&[NotifyState::Watchdog]);
    }
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
