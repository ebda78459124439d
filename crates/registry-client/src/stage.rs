//! How far a request came.

/// The last thing that was tried on the way to an answer. In the order of that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reading the documents, which may allow no way there.
    Documents,
    /// Reaching the host, by its proxy if there is one.
    Reach,
    /// Believing its certificate.
    Certificate,
    /// Telling who the puller is.
    Account,
    /// Being allowed to have the content, which may not be there either.
    Access,
    /// Reading what came.
    Answer,
}

impl Stage {
    /// A word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Reach => "reach",
            Self::Certificate => "certificate",
            Self::Account => "account",
            Self::Access => "access",
            Self::Answer => "answer",
        }
    }
}
