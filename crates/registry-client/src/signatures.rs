//! The signatures of a digest, from every place in which one source may have them.
//!
//! The tag `sha256-HEX.sig` and the referrers are asked side by side, and what they list likewise.
//! Nothing of it is believed but what a key signed, so a place that fails, withholds or lies can
//! make a pull fail and nothing else. It does not hide what another place has: once one place has
//! said all or there is a signature, what is missing is waited for as long, without news, as a
//! source is before the next one is asked.
//!
//! `docs/image-policy.md` has the bounds; [`image_policy::places`] reads what comes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, join, join_all, select};
use image_policy::Signature;
use image_policy::places::{self, Layer, Listed, MAX_CONTENT_BYTES};
use oci_image::digest::{Digest, Unverified};
use oci_image::manifest::MAX_MANIFEST_BYTES;
use reqwest::StatusCode;
use tokio::time::Instant;

use crate::content_request::ContentRequest;
use crate::error::Error;
use crate::registry::Registry;
use crate::retry::{LastFailure, seconds};

mod found;

use found::{Found, Place};

impl Registry {
    /// The signatures that this source has for a digest, in an order of their own, and how many more
    /// it has than are fetched; none where it says that it has none. Payloads and bundles are the
    /// content that their digests name.
    ///
    /// # Errors
    ///
    /// What failed first, where nothing was found. Beside signatures failures are only logged.
    pub async fn signatures(&self, digest: &Digest) -> Result<Listed<Signature>, Error> {
        let search = Search {
            registry: self,
            digest,
            end: Instant::now() + self.session.budget(),
            found: Found::default(),
        };
        let last = LastFailure::default();
        let followed = LastFailure::follow(&last);
        let late = last.of(search.run()).await.map(|patience| {
            let last = last.text().map(|text| format!("; the last failure: {text}"));
            let reason = format!(
                "it says nothing more about signatures for {}{}",
                seconds(patience),
                last.unwrap_or_default()
            );
            Error::unreachable(&self.host(), "", &reason)
        });
        drop(followed);
        search.found.finish(late)
    }
}

/// One search for the signatures of one digest at one source.
struct Search<'r> {
    registry: &'r Registry,
    digest: &'r Digest,
    /// When all requests are over, whatever has come.
    end: Instant,
    found: Found,
}

impl Search<'_> {
    /// Asks all places. Says for how long there was no news, if some of them were given up.
    async fn run(&self) -> Option<Duration> {
        let tag = self.tag().map(|()| self.found.done());
        let referrers = self.referrers().map(|()| self.found.done());
        let places = pin!(join(tag, referrers));
        let patience = self.registry.session.patience().budget_before_fallback;
        match select(places, pin!(self.found.no_news(patience))).await {
            Either::Left(_) => None,
            Either::Right(_) => Some(patience),
        }
    }

    /// What cosign and skopeo write.
    async fn tag(&self) {
        let place = Place::new(&self.found, 0, "the signature tag");
        let Some(tag) = places::signature_tag(self.digest) else {
            return;
        };
        let Some(manifest) = self.tagged(&place, &tag, "signature manifest").await else {
            return;
        };
        match places::signatures(&manifest) {
            Ok(layers) => self.layers(&place, 0, layers).await,
            Err(why) => self.found.fail(&place, self.wrong(&tag, &why.to_string())),
        }
    }

    /// What cosign 3 writes.
    async fn referrers(&self) {
        let place = Place::new(&self.found, 1, "the referrers");
        let Some(Listed { kept, left_out }) = self.index(&place).await else {
            return;
        };
        place.leave_out(left_out);
        let referrers = kept.into_iter().enumerate();
        join_all(referrers.map(|(at, digest)| self.referrer(&place, at, digest))).await;
    }

    /// The list of referrers: the registry's answer, or the index under the fallback tag where it
    /// answers with anything else.
    async fn index(&self, place: &Place<'_>) -> Option<Listed<Digest>> {
        let digest = self.digest.to_string();
        let wanted = ContentRequest::referrers(&digest);
        match self.bytes(wanted, "referrers", MAX_MANIFEST_BYTES).await {
            Ok(index) => match places::referrers(&index) {
                Ok(listed) => return Some(listed),
                // A page for people, for example.
                Err(why) => tracing::debug!(%why, "no referrers API"),
            },
            Err(error) if is_without_api(&error) => {}
            Err(error) => self.found.fail(place, error),
        }
        let tag = places::referrers_tag(self.digest);
        let index = self.tagged(place, &tag, "index of referrers").await?;
        let listed = places::referrers(&index);
        let failed = |why: places::InvalidList| {
            self.found.fail(place, self.wrong(&tag, &why.to_string()));
        };
        listed.map_err(failed).ok()
    }

    /// The signatures in one manifest that refers to the digest. One that is something else is
    /// nothing.
    async fn referrer(&self, place: &Place<'_>, at: usize, digest: Digest) {
        let name = digest.to_string();
        let wanted = ContentRequest::manifest(&name);
        let Some(manifest) = self.content(place, wanted, &digest, "manifest").await else {
            return;
        };
        match places::signatures(&manifest) {
            Ok(layers) => self.layers(place, at, layers).await,
            Err(why) => tracing::debug!(%digest, %why, "a referrer is no signature"),
        }
    }

    /// The layers of a manifest that are signatures. Many signatures may have one payload, which is
    /// fetched once.
    async fn layers(&self, place: &Place<'_>, at: usize, layers: Listed<Layer>) {
        let count = place.take(layers.kept.len());
        place.leave_out(layers.left_out + layers.kept.len() - count);
        let mut contents: BTreeMap<Digest, Vec<(usize, Layer)>> = BTreeMap::new();
        for (number, layer) in layers.kept.into_iter().enumerate().take(count) {
            let same = contents.entry(layer.digest.clone()).or_default();
            same.push((number, layer));
        }
        let fetch = async |digest: Digest, layers: Vec<(usize, Layer)>| {
            let name = digest.to_string();
            let wanted = ContentRequest::blob(&name, None);
            let content = self.content(place, wanted, &digest, "signature").await;
            let Some(content) = content else {
                return;
            };
            for (number, layer) in layers {
                let signature = || layer.with(content.clone());
                self.found.add(place, [at, number], content.len(), signature);
            }
        };
        let contents = contents.into_iter();
        join_all(contents.map(|(digest, layers)| fetch(digest, layers))).await;
    }

    /// What is under a tag just now, if there is anything.
    async fn tagged(&self, place: &Place<'_>, tag: &str, what: &'static str) -> Option<Vec<u8>> {
        let wanted = ContentRequest::manifest(tag);
        match self.bytes(wanted, what, MAX_MANIFEST_BYTES).await {
            Ok(bytes) => Some(bytes),
            Err(error) if error.is_missing() => None,
            Err(error) => {
                self.found.fail(place, error);
                None
            }
        }
    }

    /// What has a digest, held to it.
    async fn content(
        &self,
        place: &Place<'_>,
        wanted: ContentRequest<'_>,
        digest: &Digest,
        what: &'static str,
    ) -> Option<Vec<u8>> {
        let _turn = place.turn().await?;
        if place.is_full() {
            place.leave_out(1);
            return None;
        }
        let received = self.bytes(wanted, what, MAX_CONTENT_BYTES).await;
        let verified = received.and_then(|bytes| {
            let verified = Unverified::new(bytes).verify(digest, None);
            verified.map_err(|mismatch| {
                let host = self.registry.host();
                tracing::debug!(host, ?mismatch, "another {what}");
                let rule = format!("sends another {what} than was asked for: {mismatch}");
                Error::answer(&host, &rule)
            })
        });
        let failed = |error| self.found.fail(place, error);
        verified.map_err(failed).ok()
    }

    async fn bytes(
        &self,
        wanted: ContentRequest<'_>,
        what: &'static str,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let attempts = self.registry.session.attempts_until(self.end);
        let bytes = self.registry.bytes(wanted.aside(), what, limit_bytes, attempts);
        let settled = bytes.await;
        // That something is not there is an answer; only what is asked for again is a failure yet.
        LastFailure::note(None);
        settled.inspect(|_| self.found.news())
    }

    fn wrong(&self, tag: &str, why: &str) -> Error {
        Error::answer(&self.registry.host(), &format!("has a tag {tag} which {why}"))
    }
}

/// Whether a registry says that it has no API for referrers. The specification has 404; others say
/// that the address or the method is none of theirs.
fn is_without_api(error: &Error) -> bool {
    let said = [
        StatusCode::NOT_FOUND,
        StatusCode::BAD_REQUEST,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_ACCEPTABLE,
        StatusCode::NOT_IMPLEMENTED,
    ];
    error.status().is_some_and(|status| said.contains(&status))
}
