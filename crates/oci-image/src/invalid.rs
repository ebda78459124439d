//! Why a verified document is not used.

/// Why a document is no image for this guest. The words fit after its digest: "sha256:… has 501
/// layers, …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDocument {
    /// It is not JSON of the expected form, or JSON that other programs may read differently.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is a kind of document that cannot be used, or two kinds at once.
    #[error("{0}")]
    Kind(String),
    /// It is something else than an image.
    #[error("is {0} and no image")]
    Artifact(String),
    /// It is for another platform.
    #[error("{0}")]
    Platform(String),
    /// A number, a size or a list breaks a rule or a limit.
    #[error("{0}")]
    Content(String),
    /// It has a layer of a type that cannot be unpacked.
    #[error("{0}")]
    Layer(String),
}
