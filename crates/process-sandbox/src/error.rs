//! What can go wrong.

/// The kernel refused a step.
#[derive(Debug, thiserror::Error)]
#[error("give up rights: {step}: {reason}")]
pub struct Error {
    /// Which.
    pub step: &'static str,
    /// The kernel's or the library's words.
    pub reason: String,
}

/// Turns any error of `step` into ours.
pub(crate) fn failed<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Error {
    move |error| Error { step, reason: error.to_string() }
}
