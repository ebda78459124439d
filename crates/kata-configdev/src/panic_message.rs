//! What a program says when it has a bug.

use std::panic;
use std::process::ExitCode;
use std::sync::OnceLock;

/// What was said first.
static SAID: OnceLock<String> = OnceLock::new();

/// Makes a panic say where it happened and not what it says: the standard messages may quote the
/// text they failed on, and that text may hold secrets. Call first thing in `main`.
pub fn hide(program: &'static str) {
    panic::set_hook(Box::new(move |info| {
        let place = info
            .location()
            .map(|location| format!("{}:{}", location.file(), location.line()))
            .unwrap_or_default();
        let line = format!("{program}: internal error at {place}: please report it");
        eprintln!("{line}");
        let _ = SAID.set(line);
    }));
}

/// Runs `program`; a panic ends it with the exit code of an internal error instead of Rust's own.
pub fn contain(program: impl FnOnce() -> ExitCode) -> ExitCode {
    catch(program).unwrap_or_else(|_| crate::exit::INTERNAL.into())
}

/// Runs `work`.
///
/// # Errors
///
/// What a panic in it said; it stands on standard error already.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, &'static str> {
    panic::catch_unwind(panic::AssertUnwindSafe(work))
        .map_err(|_| SAID.get().map_or("internal error", String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_with_the_code_of_an_internal_error() {
        let code = contain(|| panic!("a bug"));
        assert_eq!(code, ExitCode::from(70));
        assert_eq!(contain(|| ExitCode::from(3)), ExitCode::from(3));
    }
}
