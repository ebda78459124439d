//! A text that is shown to nobody who does not ask for it by name.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

/// What stands in for a secret wherever one would be shown.
pub(crate) const REDACTED: &str = "[redacted]";

/// A password or token: zeroed when dropped, never shown by `Debug` or by serialisation.
///
/// There is no `Display` and no `PartialEq`, so a secret reaches a log or a comparison only through
/// [`Secret::expose`]. Its clones share the memory.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Takes the text over without copying it, so no second copy stays behind.
impl From<String> for Secret {
    fn from(text: String) -> Self {
        Zeroizing::new(text).into()
    }
}

impl From<Zeroizing<String>> for Secret {
    fn from(text: Zeroizing<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_shows_itself_to_nobody_else() {
        let secret = Secret::from("hunter2".to_owned());
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(format!("{secret:?}{:?}", secret.clone()), "[redacted][redacted]");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"[redacted]\"");
    }
}
