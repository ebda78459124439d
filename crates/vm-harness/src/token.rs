//! Tokens as `docker-registry` takes them, and the key that signs them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::Scratch;
use crate::process::{run_checked, run_with_input};

/// What tokens and registry call each other.
pub const SERVICE: &str = "registry.test";

/// Who signs, for the registry.
pub const ISSUER: &str = "tests";

/// How long past its end `docker-registry` still takes a token, for clocks that differ.
pub const LEEWAY: Duration = Duration::from_secs(60);

/// A key that signs tokens.
#[derive(Clone, Debug)]
pub struct TokenSigner {
    scratch: Scratch,
}

impl TokenSigner {
    /// Makes a key and a certificate for it.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn new(scratch: &Scratch) -> Result<Self> {
        let place = scratch.path();
        let path = |name: &str| place.join(name).display().to_string();
        let (key, certificate) = (path("token.key"), path("token.pem"));
        let arguments = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=tokens";
        let files = ["-keyout", &key, "-out", &certificate];
        run_checked(scratch, "openssl", arguments.split(' ').chain(files).collect::<Vec<_>>())?;
        Ok(Self { scratch: scratch.clone() })
    }

    /// The certificate, for the registry.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.scratch.path().join("token.pem")
    }

    /// A JSON web token (RS256, the certificate in its header) to pull `repository`, taken until
    /// `end`.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn sign(&self, repository: &str, end: SystemTime) -> Result<String> {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map(|d| d.as_secs());
        let now = seconds(SystemTime::now())?;
        let pem = fs::read_to_string(self.certificate())?;
        let certificate: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let header = format!(r#"{{"typ":"JWT","alg":"RS256","x5c":["{certificate}"]}}"#);
        let claims = format!(
            r#"{{"iss":"{ISSUER}","aud":"{SERVICE}","sub":"puller","jti":"1","iat":{now},"nbf":{},"exp":{},"access":[{{"type":"repository","name":"{repository}","actions":["pull"]}}]}}"#,
            now - 600,
            seconds(end - LEEWAY)?,
        );
        let part = |text: String| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", part(header), part(claims));
        let input = self.scratch.write("token.signed", &signed)?;
        let key = self.scratch.path().join("token.key");
        let key = key.to_str().context("a path that is not UTF-8")?;
        let arguments = ["dgst", "-sha256", "-sign", key];
        let output = run_with_input(&self.scratch, "openssl", arguments, &input)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(output.stdout)))
    }
}
