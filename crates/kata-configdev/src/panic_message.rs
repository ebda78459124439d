//! What a program says when it has a bug.

use std::panic;

/// Makes a panic say where it happened and not what it says: the standard messages may quote the
/// text they failed on, and that text may hold secrets. Call first thing in `main`.
pub fn hide(program: &'static str) {
    panic::set_hook(Box::new(move |info| {
        let place = info
            .location()
            .map(|location| format!("{}:{}", location.file(), location.line()))
            .unwrap_or_default();
        eprintln!("{program}: internal error at {place}: please report it");
    }));
}

/// Runs `program`; a panic ends it with the exit code of an internal error instead of Rust's own.
pub fn contain(program: impl FnOnce() -> std::process::ExitCode) -> std::process::ExitCode {
    panic::catch_unwind(panic::AssertUnwindSafe(program))
        .unwrap_or_else(|_| crate::exit::INTERNAL.into())
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;

    #[test]
    fn a_panic_ends_with_the_code_of_an_internal_error() {
        let code = contain(|| panic!("a bug"));
        assert_eq!(code, ExitCode::from(70));
        assert_eq!(contain(|| ExitCode::from(3)), ExitCode::from(3));
    }
}
