//! What happens where this program has a bug: a panic says where, never what, and ends like refused
//! initdata.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use crate::error::{Class, Error};

thread_local! {
    /// Where this thread panicked last. The unwinding itself does not carry it.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Makes a panic print its place only: the message may quote a disk, and with it a password. Call
/// first thing in `main`.
pub fn hide_messages() {
    panic::set_hook(Box::new(|info| {
        let place = place(info);
        // Not `eprintln!`: a log that cannot be written would be a panic in here, which aborts.
        let _ = writeln!(
            io::stderr(),
            "initdata-processor: internal error at {place}: please report it"
        );
        PLACE.set(Some(place));
    }));
}

fn place(info: &PanicHookInfo<'_>) -> String {
    info.location()
        .map_or_else(unknown, |location| format!("{}:{}", location.file(), location.line()))
}

fn unknown() -> String {
    "an unknown place".into()
}

/// The error of a panic at `place`.
pub(crate) fn error(place: &str) -> Error {
    let text = format!("finish: internal error at {place}: please report it");
    Error::new(Class::Failed, text)
}

/// Does `work`; a panic becomes its place, known only after [`hide_messages`].
///
/// What `work` was changing may be left half changed: the caller must not go on with it.
///
/// # Errors
///
/// FILE:LINE of the panic.
pub(crate) fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|_| PLACE.take().unwrap_or_else(unknown))
}
