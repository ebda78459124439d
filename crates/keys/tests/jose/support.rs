//! Other programs that speak JOSE, and what this room's tests share.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keys::{KeyError, PrivateKey};
use serde_json::Value;

/// What encrypted keys are encrypted with.
pub const PASSWORD: &str = "correct horse";

/// What jwcrypto encrypted.
pub struct Peer(pub Value);

impl Peer {
    /// Asks jwcrypto; `None` where it is not installed and need not be.
    pub fn ask() -> Option<Self> {
        // Debian's interpreter has Debian's packages, whatever else comes first on the path.
        let python = ["/usr/bin/python3", "python3"]
            .into_iter()
            .find(|python| succeeds(Command::new(python).args(["-c", "import jwcrypto"])));
        let Some(python) = python else {
            skip("python3-jwcrypto");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jose/peer.py");
        let output = Command::new(python).arg(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self(serde_json::from_slice(&output.stdout).unwrap()))
    }

    pub fn plain(&self) -> Vec<u8> {
        serde_json::from_value(self.0["plain"].clone()).unwrap()
    }

    pub fn messages(&self) -> &[Value] {
        self.0["messages"].as_array().unwrap()
    }
}

/// Whether a program ran and was content.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Says why a test did nothing, where it may do nothing.
pub fn skip(what: &str) {
    assert!(std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(), "{what} is needed");
    eprintln!("skipped: there is no {what}");
}

pub fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub fn read(bytes: &[u8]) -> Result<PrivateKey, KeyError> {
    PrivateKey::read(bytes, Some(PASSWORD.as_bytes()))
}

pub fn refusal(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}
