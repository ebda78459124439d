//! HTTP/2 (RFC 9113) by hand, as far as a registry needs it: one answer after another, faults
//! wherever the script wants them.

mod answer;
mod connection;
mod frame;
mod hpack;
mod static_table;

use std::io;

use crate::http1::After;
use crate::server::Shared;
use crate::wire::Wire;
use connection::Connection;

/// Serves one connection to its end.
pub(super) fn serve(wire: &mut Wire, number: usize, registry: &Shared) -> io::Result<After> {
    let mut connection = Connection::open(wire, number)?;
    loop {
        let (stream, request) = connection.next_request()?;
        let answer = registry.answer(request);
        match answer::write(&mut connection, stream, &answer)? {
            After::Next => {}
            after => return Ok(after),
        }
    }
}
