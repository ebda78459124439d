//! What an installed file is for.

use serde::{Deserialize, Serialize};

use crate::HostPath;

/// The wrapper's name, on the node as in the container.
pub(crate) const WRAPPER: &str = "kata-configdev-qemu";

/// The name of the command for people, beside the wrapper.
pub(crate) const PROGRAM: &str = "kata-configdev";

/// The document's name.
pub(crate) const DOCUMENT: &str = "imagepuller.toml";

/// The drop-in of a handler. Kata reads `config.d` by name, and the last `path` wins: this sorts
/// behind everything that Kata's installer (10 to 50) and people number.
pub(crate) const DROP_IN: &str = "zz-kata-configdev.toml";

/// What an installed file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Wrapper,
    Program,
    Document,
    Settings,
    DropIn,
}

impl Kind {
    /// Its name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wrapper => "wrapper",
            Self::Program => "program",
            Self::Document => "document",
            Self::Settings => "settings",
            Self::DropIn => "drop-in",
        }
    }

    /// Whether it may hold a secret.
    pub(crate) const fn is_secret(self) -> bool {
        matches!(self, Self::Document)
    }

    /// Whether a drop-in that stays needs it, so that sandboxes start.
    pub(crate) const fn is_started(self) -> bool {
        matches!(self, Self::Wrapper | Self::Settings)
    }

    /// The kind of a file by its path.
    pub(crate) fn of_path(path: &HostPath) -> Self {
        match path.split().1 {
            DROP_IN => Self::DropIn,
            WRAPPER => Self::Wrapper,
            PROGRAM => Self::Program,
            DOCUMENT => Self::Document,
            _ => Self::Settings,
        }
    }
}

/// The handler's directory, if `path` is that of a drop-in.
pub(crate) fn handler_of(path: &HostPath) -> Option<HostPath> {
    if Kind::of_path(path) != Kind::DropIn {
        return None;
    }
    let directory = path.split().0?;
    let (handler, between) = directory.split();
    handler.filter(|_| between == "config.d")
}
