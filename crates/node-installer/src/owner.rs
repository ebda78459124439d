//! Whose an installation is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest owner: a namespace and a release of Kubernetes have 63 and 53 letters.
const MAX_OWNER_BYTES: usize = 253;

/// Who put an installation on a node: for the Helm chart, `NAMESPACE/RELEASE`.
///
/// Two installers with one prefix would exchange each other's documents, and so give the pods of
/// one the credentials of the other. The list of installed files says whose they are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Owner(String);

impl Owner {
    /// Parses `text`: letters, digits, `-`, `_`, `.` and `/`, at most 253; the error is that rule.
    ///
    /// # Errors
    ///
    /// The rule that the text breaks, in words.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if text.is_empty() || text.len() > MAX_OWNER_BYTES || !text.bytes().all(known) {
            return Err("owner: not of 1 to 253 letters, digits, \"-\", \"_\", \".\" and \"/\"");
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Owner {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Owner> for String {
    fn from(owner: Owner) -> Self {
        owner.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
