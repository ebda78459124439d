//! The pull side of one registry or mirror: manifests and blobs by digest (OCI distribution
//! specification, "Pull").

use std::sync::Arc;

use oci_image::digest::{Digest, Unverified};
use oci_image::manifest::{MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES};
use pull_route::{Settings, Source};

use crate::blob::Blob;
use crate::body;
use crate::content_request::ContentRequest;
use crate::error::Error;
use crate::failure::Failure;
use crate::parts::{self, Leave};
use crate::patience::Patience;
use crate::plain_hosts::PlainHosts;
use crate::retry::Attempts;
use crate::session::Session;

/// One repository at one source.
#[derive(Debug)]
pub struct Registry {
    pub(crate) session: Session,
}

impl Registry {
    /// A session without connections.
    pub fn new(source: Source, repository: &str, settings: &Settings, patience: &Patience) -> Self {
        Self { session: Session::new(source, repository, settings, patience) }
    }

    /// Shares with others what is known of hosts without TLS.
    #[must_use]
    pub fn with_plain_hosts(mut self, plain_hosts: Arc<PlainHosts>) -> Self {
        self.session.plain_hosts = plain_hosts;
        self
    }

    /// Host and port, as in messages.
    pub fn host(&self) -> String {
        self.session.source.host()
    }

    /// Whether another one asks the same place for the same repository.
    pub fn reads_as(&self, other: &Self) -> bool {
        let place = |session: &Session| {
            let source = &session.source;
            let repository = source.repository.as_ref().unwrap_or(&session.repository);
            (source.base.clone(), repository.clone())
        };
        place(&self.session) == place(&other.session)
    }

    /// The account in use: its place in the entry's `also`, from 1, or 0 for the entry's own;
    /// nothing where there is none.
    pub fn account(&self) -> Option<usize> {
        self.session.account()
    }

    /// What is asked, and what holds there.
    pub fn source(&self) -> &Source {
        &self.session.source
    }

    /// The scheme by which it answered; nothing before the first answer.
    pub fn scheme(&self) -> Option<&'static str> {
        self.session.scheme()
    }

    /// The words that name the proxy on the way there; empty without one.
    pub fn via(&self) -> String {
        self.session.via()
    }

    /// Whether it was told who the puller is: it asked for that, or the account has a token.
    pub async fn is_told(&self) -> bool {
        self.session.is_told().await
    }

    /// Asks for nothing but to be let in, by a registry that was made for no repository
    /// (specification, "Determining Support").
    pub async fn greet(&self) -> Result<(), Error> {
        let wanted = ContentRequest::greeting();
        let ask = || async { self.session.ask(wanted).await.map(drop) };
        let attempts = self.session.attempts();
        attempts.run("answer", &self.host(), ask).await
    }

    /// The bytes that the registry has under the digest of a manifest.
    pub async fn manifest(&self, digest: &Digest) -> Result<Unverified, Error> {
        self.named_manifest(&digest.to_string()).await
    }

    /// The manifest that the registry has under a tag just now. Nothing vouches for it.
    pub async fn tag(&self, tag: &str) -> Result<Unverified, Error> {
        self.named_manifest(tag).await
    }

    async fn named_manifest(&self, name: &str) -> Result<Unverified, Error> {
        let wanted = ContentRequest::manifest(name);
        self.whole(wanted, "manifest", MAX_MANIFEST_BYTES).await
    }

    /// The bytes that the registry has under the digest of an image configuration.
    pub async fn config(&self, digest: &Digest) -> Result<Unverified, Error> {
        let name = digest.to_string();
        let wanted = ContentRequest::blob(&name, None);
        self.whole(wanted, "image configuration", MAX_CONFIG_BYTES).await
    }

    /// The transfer of a blob, which has begun, to be hashed by who reads it. `size` is the
    /// descriptor's: not a byte more comes.
    pub async fn blob(&self, digest: &Digest, size: u64) -> Result<Blob<'_>, Error> {
        Blob::open(&self.session, digest, size, None).await
    }

    /// The same, in several parts at once if the registry is far away. Without leave it is one
    /// stream.
    pub async fn blob_in_parts(
        &self,
        digest: &Digest,
        size: u64,
        leave: Option<Leave>,
    ) -> Result<Blob<'_>, Error> {
        Blob::open(&self.session, digest, size, leave).await
    }

    /// Whether the registry is so far away that one stream may not fill the line.
    pub fn is_far(&self) -> bool {
        parts::is_far(&self.session)
    }

    async fn whole(
        &self,
        wanted: ContentRequest<'_>,
        what: &'static str,
        limit_bytes: usize,
    ) -> Result<Unverified, Error> {
        let attempts = self.session.attempts();
        let bytes = self.bytes(wanted, what, limit_bytes, attempts).await?;
        Ok(Unverified::new(bytes))
    }

    /// A small answer, asked for again as a whole where it breaks off.
    pub(crate) async fn bytes(
        &self,
        wanted: ContentRequest<'_>,
        what: &'static str,
        limit_bytes: usize,
        attempts: Attempts,
    ) -> Result<Vec<u8>, Error> {
        let ask = || async {
            let answer = self.session.ask(wanted).await?;
            let stall = self.session.patience().stall;
            body::read(answer, what, limit_bytes, stall).await
        };
        let reconnect = |failure: &Failure| {
            // Who says that there is no such thing is well.
            if !failure.error.is_missing() {
                self.session.reconnect();
            }
        };
        let ask = || async { ask().await.inspect_err(reconnect) };
        attempts.run(what, &self.host(), ask).await
    }
}
