//! A key broker service (KBS), protocol 0.4.0.
//!
//! The guest either has a token already, or it attests: `POST /kbs/v0/auth` gives a challenge and a
//! session's cookie, `POST /kbs/v0/attest` takes evidence that holds a hash over the challenge and
//! a fresh public key, and from then on `GET /kbs/v0/PLUGIN/PATH` answers with what is encrypted
//! for that key. A session lasts until the broker answers 401.
//!
//! That an answer is encrypted for the guest does not say who made it: the key is public. It comes
//! from the broker because TLS says so, or the guest's own loopback interface.
//!
//! Specification: "KBS Attestation Protocol" of Confidential Containers' trustee; what it leaves
//! open is as its client does it.
//!
//! - `message`: what is sent and received. `challenge`: what the evidence has to hold.
//! - `cookie`: the session's. `token`: the file with a token.

use std::path::PathBuf;
use std::sync::Arc;

use jose::{Jwe, PrivateKey};
use puller_config::ResourceUri;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderValue};
use tokio::sync::Mutex;
use url::Url;
use zeroize::Zeroizing;

use crate::MAX_RESOURCE_BYTES;
use crate::attester::{Attester, AttesterError};
use crate::error::{Fault, Kind};
use crate::http::{self, Answer, Http};

use self::challenge::Challenge;
use self::message::{Attestation, PublicKey};

pub mod challenge;
mod cookie;
pub mod message;
mod token;

/// The largest answer to a hand-shake: a token holds the broker's whole view of the evidence.
const MAX_HANDSHAKE_BYTES: usize = 256 << 10;

/// The largest answer with a resource: its base64, and what belongs to the encryption.
const MAX_ENCRYPTED_BYTES: usize = MAX_RESOURCE_BYTES.div_ceil(3) * 4 + (16 << 10);

/// One broker, and the session with it.
#[derive(Debug)]
pub struct Broker {
    http: Http,
    address: Url,
    token_file: Option<PathBuf>,
    attester: Option<Arc<dyn Attester>>,
    session: Mutex<Option<Arc<Session>>>,
}

/// What makes the broker answer, and what opens its answers.
#[derive(Debug)]
struct Session {
    cookie: HeaderValue,
    key: PrivateKey,
}

impl Broker {
    /// A broker without a session.
    pub fn new(
        http: Http,
        address: Url,
        token_file: Option<PathBuf>,
        attester: Option<Arc<dyn Attester>>,
    ) -> Self {
        Self {
            http,
            address,
            token_file,
            attester,
            session: Mutex::default(),
        }
    }

    /// Asks for a resource, with the token if there is one, else in a session.
    pub async fn fetch(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Fault> {
        if let Some(file) = &self.token_file {
            let token = token::read(file).await?;
            return self
                .get(uri, (AUTHORIZATION, &token.bearer), &token.key)
                .await;
        }
        let Some(attester) = &self.attester else {
            return Err(Fault::NoProof);
        };
        let session = self.session(attester, None).await?;
        match self.get(uri, (COOKIE, &session.cookie), &session.key).await {
            // The session is over, or the broker has no other word for what went wrong with the
            // resource.
            Err(Fault::Status { status: 401, .. }) => {
                let session = self.session(attester, Some(&session)).await?;
                self.get(uri, (COOKIE, &session.cookie), &session.key).await
            }
            answer => answer,
        }
    }

    /// The session, a new one if there is none or if it is the one that `failed`.
    async fn session(
        &self,
        attester: &Arc<dyn Attester>,
        failed: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, Fault> {
        // Held during the hand-shake, so that concurrent requests wait for its result instead of
        // making their own.
        let mut known = self.session.lock().await;
        if let Some(session) = known.as_ref()
            && failed.is_none_or(|failed| !Arc::ptr_eq(failed, session))
        {
            return Ok(session.clone());
        }
        *known = None;
        let session = Arc::new(self.attest(attester).await?);
        *known = Some(session.clone());
        Ok(session)
    }

    /// The hand-shake.
    async fn attest(&self, attester: &Arc<dyn Attester>) -> Result<Session, Fault> {
        let request = message::request(attester.tee());
        let url = http::at(&self.address, "/kbs/v0/auth", None);
        let answer = self.http.post(url, request);
        let answer = self.http.send(answer, MAX_HANDSHAKE_BYTES).await?;
        check(&answer, Step::Challenge)?;
        let cookie = cookie::session(&answer.headers)?;
        let challenge = Challenge::parse(&answer.body)?;

        let key = PrivateKey::generate_p256()?;
        let public = PublicKey::of(&key)?;
        let report_data = challenge.report_data(&public);
        let evidence = {
            let attester = attester.clone();
            let work = tokio::task::spawn_blocking(move || attester.evidence(&report_data));
            work.await
                .unwrap_or_else(|_| Err(AttesterError("the attester gave up".to_owned())))?
        };
        let body = Attestation::new(&challenge, &public, evidence).to_json();
        let url = http::at(&self.address, "/kbs/v0/attest", None);
        let attest = self.http.post(url, body).header(COOKIE, cookie.clone());
        let answer = self.http.send(attest, MAX_HANDSHAKE_BYTES).await?;
        check(&answer, Step::Evidence)?;
        // The cookie stands for the token; the token's presence says that the evidence was
        // believed.
        message::token_of(&answer.body)?;
        tracing::debug!(broker = %self.address, tee = attester.tee(), "attested");
        Ok(Session { cookie, key })
    }

    async fn get(
        &self,
        uri: &ResourceUri,
        (name, proof): (reqwest::header::HeaderName, &HeaderValue),
        key: &PrivateKey,
    ) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let path = format!("/kbs/v0/{}/{}", uri.plugin(), uri.path());
        let url = http::at(&self.address, &path, uri.query());
        let request = self.http.get(url).header(name, proof.clone());
        let answer = self.http.send(request, MAX_ENCRYPTED_BYTES).await?;
        check(&answer, Step::Resource)?;
        let opened = Jwe::parse(&answer.body)?.open(std::slice::from_ref(key))?;
        Ok(opened.plain)
    }
}

/// What the broker was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Challenge,
    Evidence,
    Resource,
}

/// Refuses an answer without success, with what it means at this step.
fn check(answer: &Answer, step: Step) -> Result<(), Fault> {
    if answer.status == StatusCode::OK {
        return Ok(());
    }
    let error = message::error_kind(&answer.body);
    let hint = match (answer.status, step) {
        _ if error.is_version => {
            "the broker speaks another version of its protocol than 0.4.0, which this program \
            speaks"
        }
        (StatusCode::UNAUTHORIZED, Step::Challenge) => {
            "the broker does not begin; its own log says why"
        }
        (StatusCode::UNAUTHORIZED, Step::Evidence) => {
            "the broker does not believe the evidence; compare its policy and reference values \
            with this guest"
        }
        (StatusCode::UNAUTHORIZED, Step::Resource) => {
            "the broker does not take the session or token, or has no such resource; its own log \
            says which"
        }
        (StatusCode::FORBIDDEN, _) => {
            "the broker's policy does not give this resource to this guest"
        }
        (StatusCode::NOT_FOUND, Step::Resource) => {
            "the broker has no such resource, or no such plugin"
        }
        (StatusCode::NOT_FOUND, _) => "there is no key broker at this address",
        (status, _) if status.is_server_error() => {
            "the broker, or something in front of it, has failed; its own log says why"
        }
        _ => "that is none of the broker's answers; is there one at this address?",
    };
    Err(Fault::Status {
        status: answer.status.as_u16(),
        kind: Kind(error.kind),
        hint,
    })
}
