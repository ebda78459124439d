//! Tests only: a registry that misbehaves as a script says, down to the single byte.
//!
//! A well-behaved registry cannot show what a puller does with a bad one. This one speaks HTTP/1.1
//! and HTTP/2 over TCP or TLS. It serves an OCI layout as the distribution specification wants it,
//! and does otherwise wherever a [`Rule`] of its [`Script`] applies. It remembers every request.
//!
//! Not here: what a client ought to do about it; that stands in the tests of the client.
//!
//! Entry point: [`FaultRegistry::start`]; as a program, `fault-registry`.
//!
//! - [`Content`], [`Image`]: what is served.
//! - [`Script`], [`Rule`], [`What`], [`Login`]: when something else happens.
//! - [`Action`]: what happens then.
//! - [`Request`]: what the registry was asked.

mod action;
mod alter;
mod answer;
mod chunks;
mod content;
mod http1;
mod http2;
mod image;
mod login;
mod range;
mod request;
mod script;
mod server;
mod tls;
mod wire;

#[cfg(test)]
mod tests;

pub use action::{Action, Bytes, Chunked, End, Http2Fault, Length, Point, RangeLie};
pub use content::{Content, What};
pub use image::{Image, Layer};
pub use login::Login;
pub use request::Request;
pub use script::{ConnectionRule, Rule, Script};
pub use server::FaultRegistry;
pub use tls::{Http, Tls};
