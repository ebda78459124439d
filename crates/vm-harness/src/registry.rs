//! A real registry: Debian's `docker-registry`, with TLS and a password.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::process::{bound_command, run_checked, run_with_input};
use crate::token::{ISSUER, SERVICE, TokenSigner};
use crate::{Background, Scratch};
use test_http::pki::Authority;

/// A running `docker-registry` on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct Registry {
    process: Background,
    port: u16,
    storage: PathBuf,
    auth: String,
    trust: PathBuf,
    authfile: PathBuf,
}

/// The file with the passwords of a registry.
const HTPASSWD: &str = "registry.htpasswd";

/// How a registry speaks HTTP.
#[derive(Clone, Copy)]
struct Http<'h> {
    /// The path that everything is below.
    prefix: &'h str,
    /// A file with the authorities of the clients that it speaks to; nothing for all clients.
    clients: Option<&'h Path>,
}

impl Default for Http<'_> {
    fn default() -> Self {
        Self { prefix: "/", clients: None }
    }
}

impl Registry {
    /// Starts a registry that shows a certificate of `authority` for `names` and wants `username`
    /// and `password`.
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
        let entry = htpasswd_entry(scratch, username, password)?;
        let htpasswd = scratch.write(HTPASSWD, entry)?;
        let auth = format!("htpasswd: {{realm: test, path: {}}}", htpasswd.display());
        let storage = scratch.path().join("registry-storage");
        let http = Http::default();
        let mut registry = Self::serve(scratch, "registry", authority, names, storage, auth, http)?;
        let auth = STANDARD.encode(format!("{username}:{password}"));
        let auths = json!({"auths": {format!("127.0.0.1:{}", registry.port): {"auth": auth}}});
        registry.authfile = scratch.write("registry-auth.json", auths.to_string())?;
        Ok(registry)
    }

    /// From now on the registry wants this password and no other: it looks into the file again once
    /// that has changed. `scratch` is what it was started with.
    ///
    /// # Errors
    ///
    /// Where `htpasswd` does not work.
    pub fn change_password(&self, scratch: &Scratch, username: &str, password: &str) -> Result<()> {
        let entry = htpasswd_entry(scratch, username, password)?;
        let new = scratch.write(&format!("{HTPASSWD}.new"), entry)?;
        Ok(fs::rename(new, scratch.path().join(HTPASSWD))?)
    }

    /// Starts another registry with the same blobs, which wants tokens of `signer` and names
    /// `realm` as where they are to be had.
    ///
    /// # Errors
    ///
    /// Where `docker-registry` does not start.
    pub fn with_tokens(
        &self,
        scratch: &Scratch,
        authority: &Authority,
        names: &[&str],
        signer: &TokenSigner,
        realm: &str,
    ) -> Result<Self> {
        let auth = format!(
            "token: {{realm: '{realm}', service: {SERVICE}, issuer: {ISSUER}, rootcertbundle: {}}}",
            signer.certificate().display()
        );
        let storage = self.storage.clone();
        let name = "token-registry";
        Self::serve(scratch, name, authority, names, storage, auth, Http::default())
    }

    /// Starts another registry with the same blobs and the same login, everything below the path
    /// `prefix` (`/path/`).
    ///
    /// # Errors
    ///
    /// Where `docker-registry` does not start.
    pub fn with_prefix(
        &self,
        scratch: &Scratch,
        authority: &Authority,
        names: &[&str],
        prefix: &str,
    ) -> Result<Self> {
        let (storage, auth) = (self.storage.clone(), self.auth.clone());
        let name = "prefixed-registry";
        let http = Http { prefix, ..Http::default() };
        Self::serve(scratch, name, authority, names, storage, auth, http)
    }

    /// Starts another registry with the same blobs and the same login, which speaks TLS only with
    /// who shows a certificate of `clients`.
    ///
    /// # Errors
    ///
    /// Where `docker-registry` does not start.
    pub fn with_client_certificates(
        &self,
        scratch: &Scratch,
        authority: &Authority,
        names: &[&str],
        clients: &Authority,
    ) -> Result<Self> {
        let (storage, auth) = (self.storage.clone(), self.auth.clone());
        let name = "client-registry";
        let clients = scratch.write(&format!("{name}-clients.pem"), clients.certificate())?;
        let http = Http { clients: Some(&clients), ..Http::default() };
        Self::serve(scratch, name, authority, names, storage, auth, http)
    }

    fn serve(
        scratch: &Scratch,
        name: &str,
        authority: &Authority,
        names: &[&str],
        storage: PathBuf,
        auth: String,
        http: Http<'_>,
    ) -> Result<Self> {
        let Http { prefix, clients } = http;
        let clients =
            clients.map_or(String::new(), |file| format!(", clientcas: [{}]", file.display()));
        let all_names = [&["127.0.0.1"], names].concat();
        let identity = authority.sign(&all_names)?;
        let certificate = scratch.write(&format!("{name}.pem"), &identity.certificate)?;
        let key = scratch.write(&format!("{name}.key"), &identity.key)?;
        // skopeo takes a directory of *.crt.
        let trust = scratch.path().join(format!("{name}-trust"));
        fs::create_dir(&trust)?;
        fs::write(trust.join("ca.crt"), authority.certificate())?;
        let config = format!(
            "version: 0.1\n\
             log: {{level: info}}\n\
             storage: {{filesystem: {{rootdirectory: {storage}}}}}\n\
             http: {{addr: '127.0.0.1:0', prefix: {prefix}, tls: {{certificate: {certificate}, \
             key: {key}{clients}}}}}\n\
             auth: {{{auth}}}\n",
            storage = storage.display(),
            certificate = certificate.display(),
            key = key.display(),
        );
        let config = scratch.write(&format!("{name}.yml"), config)?;
        let mut command = bound_command("docker-registry");
        command.arg("serve").arg(config);
        let mut process = Background::spawn(name, command, scratch)?;
        let port = process
            .wait_for(Duration::from_secs(60), listening_port)
            .context("docker-registry did not start")?;
        Ok(Self { process, port, storage, auth, trust, authfile: PathBuf::new() })
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

    /// Method and address of each request that the registry has answered, with the status, in
    /// order.
    #[must_use]
    pub fn answers(&self) -> Vec<(String, u16)> {
        self.log().lines().filter_map(answer).collect()
    }

    /// The statuses with which it has answered one request, such as `GET /v2/`.
    #[must_use]
    pub fn statuses(&self, request: &str) -> Vec<u16> {
        let all = self.answers().into_iter();
        all.filter(|(asked, _)| asked == request).map(|(_, status)| status).collect()
    }

    /// Pushes the OCI layout at `layout` as `repository:1` with `skopeo`, byte for byte, an index
    /// with all that it lists.
    ///
    /// # Errors
    ///
    /// `skopeo`'s own.
    pub fn push(&self, scratch: &Scratch, layout: &Path, repository: &str) -> Result<()> {
        self.push_as(scratch, layout, &format!("{repository}:1"))
    }

    /// The same under another tag.
    ///
    /// # Errors
    ///
    /// `skopeo`'s own.
    pub fn push_as(&self, scratch: &Scratch, layout: &Path, name: &str) -> Result<()> {
        run_checked(
            scratch,
            "skopeo",
            [
                "copy",
                "--quiet",
                "--all",
                "--insecure-policy",
                "--preserve-digests",
                "--dest-cert-dir",
                &self.trust.to_string_lossy(),
                "--dest-authfile",
                &self.authfile.to_string_lossy(),
                &format!("oci:{}", layout.display()),
                &format!("docker://127.0.0.1:{}/{name}", self.port),
            ],
        )?;
        Ok(())
    }

    /// The file in which the registry keeps the blob `digest` (`sha256:...`) and which it serves as
    /// it stands.
    #[must_use]
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        self.storage.join("docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }
}

/// A line of the registry's file of passwords.
fn htpasswd_entry(scratch: &Scratch, username: &str, password: &str) -> Result<Vec<u8>> {
    // bcrypt is the only kind of entry that docker-registry accepts. No password in an argument
    // list, not even here.
    let typed = scratch.write("registry.password", password)?;
    let entry = run_with_input(scratch, "htpasswd", ["-Bin", username], &typed)?;
    Ok(entry.stdout)
}

/// Finds the port in the line with which the registry says where it listens.
fn listening_port(output: &str) -> Option<u16> {
    let (_, rest) = output.split_once("listening on 127.0.0.1:")?;
    rest.split_once(',')?.0.parse().ok()
}

/// Reads a line of the access log: `CLIENT - - [TIME] "METHOD ADDRESS HTTP/1.1" STATUS ...`.
fn answer(line: &str) -> Option<(String, u16)> {
    let (_, rest) = line.split_once("] \"")?;
    let (request, rest) = rest.split_once(" HTTP/1.1\" ")?;
    let status = rest.split(' ').next()?;
    Some((request.to_owned(), status.parse().ok()?))
}
