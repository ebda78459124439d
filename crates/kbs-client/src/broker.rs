//! A key broker service (KBS), protocol 0.4.0.
//!
//! The guest either has a token already, from a file or, where the broker does not attest, from the
//! attestation agent; or it attests: `POST /kbs/v0/auth` gives a challenge and a session's cookie, `POST /kbs/v0/attest` takes evidence that holds a hash over the challenge and
//! a fresh public key, and from then on `GET /kbs/v0/PLUGIN/PATH` answers with what is encrypted
//! for that key. A session lasts until the broker does not know it any more.
//!
//! That an answer is encrypted for the guest does not say who made it: the key is public. It comes
//! from the broker because TLS says so, or the guest's own loopback interface.
//!
//! Specification: "KBS Attestation Protocol" of Confidential Containers' trustee; what it leaves
//! open is as its client does it.
//!
//! - `message`: what is sent and received. `challenge`: what the evidence has to hold.
//! - `cookie`: the session's. `token`: a token with its key. `refusal`: why a broker refuses.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use jose::{Jwe, PrivateKey};
use puller_config::ResourceUri;
use reqwest::StatusCode;
use reqwest::header::{COOKIE, HeaderName, HeaderValue};
use tokio::sync::Mutex;
use url::Url;
use zeroize::Zeroizing;

use crate::MAX_RESOURCE_BYTES;
use crate::attester::{self, Attester};
use crate::error::Fault;
use crate::files;
use crate::http::{self, Answer, Http};

use self::challenge::Challenge;
use self::message::{Attestation, PublicKey};
use self::refusal::{Refusal, Step};

pub mod challenge;
mod cookie;
pub mod message;
pub mod refusal;
mod token;

/// The largest answer to a hand-shake: a token holds the broker's whole view of the evidence.
const MAX_HANDSHAKE_BYTES: usize = 256 << 10;

/// The largest answer with a resource: its base64, and what belongs to the encryption.
const MAX_ENCRYPTED_BYTES: usize = MAX_RESOURCE_BYTES.div_ceil(3) * 4 + (16 << 10);

/// The largest initdata that is sent along; Kata's annotations end far before.
const MAX_INITDATA_BYTES: usize = 1 << 20;

/// One broker, and the session with it.
#[derive(Debug)]
pub struct Broker {
    pub http: Http,
    pub address: Url,
    pub token_file: Option<PathBuf>,
    pub attester: Option<Attester>,
    /// The text that goes with the evidence, where there is such a file.
    pub initdata: Option<PathBuf>,
    pub session: Mutex<Option<Arc<Proof>>>,
}

/// What makes the broker answer, a session's cookie or a token, and what opens its answers.
#[derive(Debug)]
pub struct Proof {
    name: HeaderName,
    value: HeaderValue,
    key: PrivateKey,
}

impl Broker {
    /// Asks for a resource, with the token if there is one, else in a session.
    pub async fn fetch(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let proof = self.proof(None).await?;
        match self.get(uri, &proof).await {
            Err(Fault::Refused(refusal)) if refusal.is_of_proof() => {
                let next = self.proof(Some(&proof)).await?;
                if self.token_file.is_some() && next.value == proof.value {
                    return Err(Fault::Refused(refusal));
                }
                self.get(uri, &next).await
            }
            answer => answer,
        }
    }

    /// The token as it stands in its file now, or else a session.
    async fn proof(&self, failed: Option<&Arc<Proof>>) -> Result<Arc<Proof>, Fault> {
        match (&self.token_file, &self.attester) {
            (Some(file), _) => Ok(Arc::new(token::read(file).await?)),
            (None, Some(attester)) => self.session(attester, failed).await,
            (None, None) => Err(Fault::NoProof),
        }
    }

    /// The session, a new one if there is none or if it is the one that `failed`. At most two
    /// hand-shakes are made for one resource.
    async fn session(
        &self,
        attester: &Attester,
        failed: Option<&Arc<Proof>>,
    ) -> Result<Arc<Proof>, Fault> {
        // Held during the hand-shake, so that concurrent requests wait for its result instead of
        // making their own.
        let mut known = self.session.lock().await;
        if let Some(session) = known.as_ref()
            && failed.is_none_or(|failed| !Arc::ptr_eq(failed, session))
        {
            return Ok(session.clone());
        }
        *known = None;
        let session = match self.prove(attester).await {
            Err(Fault::Refused(refusal)) if refusal.is_of_evidence() && failed.is_none() => {
                self.prove(attester).await
            }
            session => session,
        };
        let session = Arc::new(session?);
        *known = Some(session.clone());
        Ok(session)
    }

    /// A session; or the token of the agent's own broker, where this one does not attest, or the
    /// environment's evidence is not for a guest to ask for.
    async fn prove(&self, attester: &Attester) -> Result<Proof, Fault> {
        let attested = match attester.tee().await? {
            Some(tee) => self.attest(attester, &tee).await,
            None => Err(Fault::NoProof),
        };
        match (attested, attester.agent()) {
            (Err(Fault::NoProof), Some(agent)) => {
                let of = |fault| attester::of(agent, fault);
                token::parse(&agent.token().await.map_err(of)?).map_err(of)
            }
            (attested, _) => attested,
        }
    }

    /// The hand-shake.
    async fn attest(&self, attester: &Attester, tee: &str) -> Result<Proof, Fault> {
        let request = message::request(tee);
        let url = http::at(&self.address, "/kbs/v0/auth", None);
        let answer = self.http.post(url, request);
        let answer = self.http.send(answer, MAX_HANDSHAKE_BYTES).await?;
        match check(&answer, Step::Challenge) {
            Err(Fault::Refused(refusal))
                if refusal.is_of_address() && attester.agent().is_some() =>
            {
                return Err(Fault::NoProof);
            }
            checked => checked?,
        }
        let cookie = cookie::session(&answer.headers)?;
        let challenge = Challenge::parse(&answer.body)?;

        let key = PrivateKey::generate_p256()?;
        let public = PublicKey::of(&key)?;
        let devices = attester.devices(&challenge.device_data(&public)).await?;
        let report_data = challenge.report_data(&public, &devices);
        let evidence = attester.evidence(&report_data).await?;
        let initdata = self.initdata().await?;
        let body = Attestation::new(&challenge, &public, evidence, &devices, initdata.as_deref());
        let url = http::at(&self.address, "/kbs/v0/attest", None);
        let attest = self.http.post(url, body.to_json());
        let attest = attest.header(COOKIE, cookie.clone());
        let answer = self.http.send(attest, MAX_HANDSHAKE_BYTES).await?;
        check(&answer, Step::Evidence)?;
        // The cookie stands for the token; the token's presence says that the evidence was
        // believed.
        message::token_of(&answer.body)?;
        tracing::debug!(broker = %self.address, tee, "attested");
        Ok(Proof { name: COOKIE, value: cookie, key })
    }

    /// The text of the initdata, if the guest has it as one text. It is public.
    async fn initdata(&self) -> Result<Option<String>, Fault> {
        let Some(path) = &self.initdata else {
            return Ok(None);
        };
        let of_file = |fault| Fault::Initdata { path: path.clone(), fault: Box::new(fault) };
        match files::read(path.clone(), MAX_INITDATA_BYTES).await {
            Err(Fault::File(ErrorKind::NotFound)) => Ok(None),
            Err(fault) => Err(of_file(fault)),
            Ok(text) => match String::from_utf8(text.to_vec()) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(of_file(Fault::Content { rule: "it is no UTF-8 text" })),
            },
        }
    }

    async fn get(&self, uri: &ResourceUri, proof: &Proof) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let path = format!("/kbs/v0/{}/{}", uri.plugin(), uri.path());
        let url = http::at(&self.address, &path, uri.query());
        let request = self.http.get(url).header(&proof.name, proof.value.clone());
        let answer = self.http.send(request, MAX_ENCRYPTED_BYTES).await?;
        check(&answer, Step::Resource)?;
        let opened = Jwe::parse(&answer.body)?.open(std::slice::from_ref(&proof.key))?;
        Ok(opened.plain)
    }
}

/// Refuses an answer without success.
fn check(answer: &Answer, step: Step) -> Result<(), Fault> {
    match answer.status {
        StatusCode::OK => Ok(()),
        _ => Err(Fault::Refused(Refusal::of(answer, step))),
    }
}
