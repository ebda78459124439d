//! Tests only: one small HTTP/1.1 server for all tests, and the certificates that it shows.
//!
//! A test gives a function from request to answer; the server records every request. It takes a
//! free port of 127.0.0.1, reads no more than named limits, and ends when its owner drops it.
//!
//! Not here: HTTP/2, and a registry that misbehaves; both are in the room `fault-registry`.
//!
//! Entry point: [`Server::start`].
//!
//! - [`Server`]: one request and one answer for each connection, with or without TLS.
//! - [`Request`]: one request as it came; [`Request::read`] serves other rooms' servers as well.
//! - [`Answer`], [`End`], [`ok`], [`head`], [`reply`]: what the server answers.
//! - [`pki`]: a certificate authority and what it signs.
//! - [`Tunnel`]: a proxy that keeps every byte.
//! - [`Recorder`]: a server that keeps every byte and answers nothing.
//! - [`Listener`]: the accepting thread under all of them.

mod answer;
mod listener;
pub mod pki;
mod recorder;
mod request;
mod server;
mod tunnel;

#[cfg(test)]
mod tests;

pub use answer::{Answer, End, SILENCE, head, ok, reply};
pub use listener::{Listener, Ticket};
pub use recorder::Recorder;
pub use request::{Incoming, Request};
pub use server::Server;
pub use tunnel::Tunnel;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, even after a thread has panicked: what it recorded is still worth reading.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
