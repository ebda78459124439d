//! A real registry: Debian's `docker-registry`, with TLS and a password.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::pki::Authority;
use crate::process::{bound_command, run_checked, run_with_input};
use crate::{Background, Scratch};

/// A running `docker-registry` on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Registry {
    process: Background,
    port: u16,
    storage: PathBuf,
    trust: PathBuf,
    authfile: PathBuf,
}

impl Registry {
    /// Starts a registry that shows a certificate of `authority` for `names` and wants `username` and `password`.
    ///
    /// # Errors
    ///
    /// Where `htpasswd` or `docker-registry` are missing or do not start.
    pub fn start(
        scratch: &Scratch,
        authority: &Authority,
        names: &[&str],
        username: &str,
        password: &str,
    ) -> Result<Self> {
        let all_names = [&["127.0.0.1"], names].concat();
        let identity = authority.sign(&all_names)?;
        let certificate = scratch.write("registry.pem", &identity.certificate)?;
        let key = scratch.write("registry.key", &identity.key)?;
        // skopeo takes a directory of *.crt.
        let trust = scratch.path().join("registry-trust");
        fs::create_dir(&trust)?;
        fs::write(trust.join("ca.crt"), authority.certificate())?;
        // bcrypt is the only kind of entry that docker-registry accepts. No password in an argument list, not even here.
        let typed = scratch.write("registry.password", password)?;
        let entry = run_with_input(scratch, "htpasswd", ["-Bin", username], &typed)?;
        let htpasswd = scratch.write("registry.htpasswd", entry.stdout)?;
        let storage = scratch.path().join("registry-storage");
        let config = format!(
            "version: 0.1\n\
             log: {{level: info}}\n\
             storage: {{filesystem: {{rootdirectory: {storage}}}}}\n\
             http: {{addr: '127.0.0.1:0', tls: {{certificate: {certificate}, key: {key}}}}}\n\
             auth: {{htpasswd: {{realm: test, path: {htpasswd}}}}}\n",
            storage = storage.display(),
            certificate = certificate.display(),
            key = key.display(),
            htpasswd = htpasswd.display(),
        );
        let config = scratch.write("registry.yml", config)?;
        let mut command = bound_command("docker-registry");
        command.arg("serve").arg(config);
        let mut process = Background::spawn("registry", command, scratch)?;
        let port = process
            .wait_for(Duration::from_secs(20), listening_port)
            .context("docker-registry did not start")?;
        let auth = STANDARD.encode(format!("{username}:{password}"));
        let auths = json!({"auths": {format!("127.0.0.1:{port}"): {"auth": auth}}});
        let authfile = scratch.write("registry-auth.json", auths.to_string())?;
        Ok(Self {
            process,
            port,
            storage,
            trust,
            authfile,
        })
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// What the registry logged, requests included.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.output()
    }

    /// How many requests the registry has answered, refused ones included.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.log().matches("http.request.method=").count()
    }

    /// Pushes the OCI layout at `layout` as `repository:1` with `skopeo`, byte for byte.
    ///
    /// # Errors
    ///
    /// `skopeo`'s own.
    pub fn push(&self, scratch: &Scratch, layout: &Path, repository: &str) -> Result<()> {
        run_checked(
            scratch,
            "skopeo",
            [
                "copy",
                "--quiet",
                "--insecure-policy",
                "--preserve-digests",
                "--dest-cert-dir",
                &self.trust.to_string_lossy(),
                "--dest-authfile",
                &self.authfile.to_string_lossy(),
                &format!("oci:{}", layout.display()),
                &format!("docker://127.0.0.1:{}/{repository}:1", self.port),
            ],
        )?;
        Ok(())
    }

    /// The file in which the registry keeps the blob `digest` (`sha256:...`) and which it serves as it stands.
    #[must_use]
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        self.storage
            .join("docker/registry/v2/blobs/sha256")
            .join(&hex[..2])
            .join(hex)
            .join("data")
    }
}

/// Finds the port in the line with which the registry says where it listens.
fn listening_port(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once("listening on 127.0.0.1:")?;
    rest.split_once(',')?.0.parse().ok()
}
