//! A key broker service, protocol 0.4.0.
//!
//! Trustee's `kbs_attestation_protocol.md` is the specification; where it is silent (versions,
//! hashes, the canonical form of what the evidence binds, every refusal) Trustee's own server is,
//! as recorded in `recorded/kbs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p256::PublicKey;
use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use test_http::pki::Authority;
use test_http::{Answer, Request, Server};

use crate::jwe::{close, public_key, secret_key};
use crate::{Vault, random};

#[cfg(test)]
mod tests;

/// The only version that this server speaks.
const VERSION: &str = "0.4.0";

/// The cookie that names a session.
const COOKIE: &str = "kbs-session-id";

/// The header of every good answer.
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// What a server asks of its guests.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The hash that binds the evidence, named in the challenge: `sha256`, `sha384` or `sha512`.
    /// None: the default is meant.
    pub hash: Option<&'static str>,
    /// How many resources a session gives before the guest has to prove itself again. None: any
    /// number.
    pub uses: Option<usize>,
    /// Paths that exist and are refused.
    pub refused: Vec<String>,
    /// The initdata without which everything is refused.
    pub initdata: Option<String>,
    /// Whether it attests nobody and wants a token of another one.
    pub wants_token: bool,
    /// The `Date` of every answer.
    pub date: Option<&'static str>,
}

/// A running server; stopped when dropped.
#[derive(Debug)]
pub struct Kbs {
    server: Server,
    state: Arc<State>,
    base: String,
}

#[derive(Debug)]
struct State {
    vault: Mutex<Vault>,
    policy: Policy,
    sessions: Mutex<BTreeMap<String, Session>>,
    /// Tokens and the keys that they are good for.
    tokens: Mutex<BTreeMap<String, PublicKey>>,
}

#[derive(Clone, Debug)]
struct Session {
    nonce: String,
    /// The key that the guest has proven.
    key: Option<PublicKey>,
    /// The initdata that came with the evidence.
    initdata: Value,
    used: usize,
}

/// Why a request is refused: a status, and the two members of the answer.
struct Refusal(u16, &'static str, String);

/// When a session is said to end. Guests learn from a refusal that it is over.
const EXPIRES: &str = "Expires=Fri, 31 Dec 9999 23:59:59 GMT";

impl Kbs {
    /// Starts a server on a free port of 127.0.0.1; `tls` is an authority, and the name in the
    /// certificate that it signs for the server.
    ///
    /// # Errors
    ///
    /// Where there is no certificate for the name, or no port.
    pub fn start(vault: Vault, policy: Policy, tls: Option<(&Authority, &str)>) -> Result<Self> {
        let config = tls.map(|(authority, name)| authority.server_config(&[name]));
        let state = Arc::new(State {
            vault: Mutex::new(vault),
            policy,
            sessions: Mutex::default(),
            tokens: Mutex::default(),
        });
        let answering = state.clone();
        let answer = move |asked: &Request| answering.answer(asked);
        let server = Server::listen(([127, 0, 0, 1], 0).into(), config.transpose()?, answer)?;
        let base = match tls {
            Some((_, name)) => format!("https://{name}:{}", server.port),
            None => format!("http://{}", server.address()),
        };
        Ok(Self { server, state, base })
    }

    /// Gives a resource another content, as its owner may at any time.
    pub fn replace(&self, path: &str, secret: impl AsRef<[u8]>) {
        let mut vault = lock(&self.state.vault);
        *vault = std::mem::take(&mut *vault).with(path, secret);
    }

    /// Its address, as a resource source names it.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.server.port
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }

    /// The resources that were given so far, in order.
    #[must_use]
    pub fn given(&self) -> Vec<String> {
        let requests = self.requests();
        let given = requests.iter().filter(|request| request.status == 200);
        given
            .filter_map(|request| request.target.strip_prefix("/kbs/v0/resource/"))
            .map(str::to_owned)
            .collect()
    }

    /// What the attestation agent gives out for this server after an attestation of its own: a JSON
    /// object with a token and the private key that the answers to its holder are closed for.
    ///
    /// # Errors
    ///
    /// Where there is no randomness.
    pub fn token_file(&self) -> Result<String> {
        let key = secret_key()?;
        let token = self.state.token(key.public_key())?;
        let pem =
            key.to_pkcs8_pem(LineEnding::LF).map_err(|_| anyhow!("failed to write the key"))?;
        Ok(json!({"token": token, "tee_keypair": pem.as_str()}).to_string())
    }
}

impl State {
    fn answer(&self, asked: &Request) -> Answer {
        let path = asked.target.as_str();
        let mut answer = self.answer_of(asked, path);
        if let Some(date) = self.policy.date {
            let line_end = answer.bytes.iter().position(|byte| *byte == b'\n');
            let at = line_end.map_or(0, |end| end + 1);
            let line = format!("Date: {date}\r\n").into_bytes();
            answer.bytes.splice(at..at, line);
        }
        answer
    }

    fn answer_of(&self, asked: &Request, path: &str) -> Answer {
        let answer = match (asked.method.as_str(), path) {
            ("POST", "/kbs/v0/auth") if !self.policy.wants_token => self.challenge(asked),
            ("POST", "/kbs/v0/attest") => self.attest(asked),
            ("GET", _) => match plugin(path) {
                Some(("resource", path)) => self.resource(asked, path),
                Some((plugin, _)) => {
                    let detail = format!("Plugin {plugin} not found");
                    Err(Refusal(404, "PluginNotFound", detail))
                }
                None => return Answer::new(404, &[], ""),
            },
            _ => return Answer::new(404, &[], ""),
        };
        answer.unwrap_or_else(|Refusal(status, kind, detail)| {
            let kind = format!("https://github.com/confidential-containers/kbs/errors/{kind}");
            // Not of `json!`, which would sort the members.
            let body = format!("{{\"type\":{},\"detail\":{}}}", json!(kind), json!(detail));
            Answer::new(status, &[], body)
        })
    }

    /// `POST /auth`: a nonce and a session.
    fn challenge(&self, asked: &Request) -> Result<Answer, Refusal> {
        let request = json_body(asked).filter(|request| request["tee"] == "sample");
        let request = request.ok_or_else(|| handshake("Auth failed: deserialize Request"))?;
        let version = request["version"].as_str().unwrap_or_default();
        if version != VERSION {
            return Err(handshake(&format!(
                "Auth failed: KBS Client Protocol Version Mismatch: expect ={VERSION} while the \
                request is {version}"
            )));
        }
        let nonce = STANDARD.encode(random::<32>().map_err(internal)?);
        let id = URL_SAFE_NO_PAD.encode(random::<16>().map_err(internal)?);
        let extra = match self.policy.hash {
            Some(hash) => json!({"selected-hash-algorithm": hash}),
            None => json!(""),
        };
        let challenge = json!({"nonce": nonce, "extra-params": extra});
        let cookie = format!("{COOKIE}={id}; {EXPIRES}");
        let headers = [JSON, ("Set-Cookie", &cookie)];
        let answer = Answer::new(200, &headers, challenge.to_string());
        let session = Session { nonce, key: None, initdata: Value::Null, used: 0 };
        lock(&self.sessions).insert(id, session);
        Ok(answer)
    }

    /// `POST /attest`: the evidence must bind the nonce of this very session and the key.
    fn attest(&self, asked: &Request) -> Result<Answer, Refusal> {
        // Guests are not told what is wrong.
        let (id, key) = self.attested(asked).map_err(|_| handshake("Attest failed"))?;
        let token = self.token(key).map_err(internal)?;
        let body = json!({"token": token});
        let cookie = format!("{COOKIE}={id}; {EXPIRES}");
        let headers = [JSON, ("Set-Cookie", &cookie)];
        Ok(Answer::new(200, &headers, body.to_string()))
    }

    /// The session of an attestation, with the key that it proves from now on.
    fn attested(&self, asked: &Request) -> Result<(String, PublicKey)> {
        let id = session_id(asked).context("no session")?;
        let attestation = json_body(asked).context("no JSON")?;
        let mut sessions = lock(&self.sessions);
        let session = sessions.get_mut(&id).context("unknown session")?;
        let key = self.verify(&attestation, &session.nonce)?;
        session.key = Some(key);
        session.initdata = attestation["init-data"].clone();
        session.used = 0;
        Ok((id, key))
    }

    /// The key that an attestation proves.
    fn verify(&self, attestation: &Value, nonce: &str) -> Result<PublicKey> {
        let runtime = &attestation["runtime-data"];
        ensure!(runtime["nonce"] == nonce, "another nonce");
        let jwk = &runtime["tee-pubkey"];
        ensure!(jwk.get("d").is_none(), "a private key was sent");
        let evidence = &attestation["tee-evidence"];
        let devices = evidence["additional_evidence"].as_str();
        let devices = devices.context("additional evidence of another type")?;
        // What is bound: these members, sorted, without white space.
        let of_devices = json!({"nonce": nonce, "tee-pubkey": jwk});
        ensure!(
            devices.is_empty() || devices.contains(&STANDARD.encode(self.hash(&of_devices))),
            "the devices' evidence does not bind nonce and key"
        );
        let digest = self.hash(&json!({
            "additional-evidence": devices,
            "nonce": nonce,
            "tee-pubkey": jwk,
        }));
        let quote = &evidence["primary_evidence"];
        ensure!(quote["svn"] == "1", "evidence of no known form");
        let report_data = quote["report_data"].as_str().unwrap_or_default();
        ensure!(
            STANDARD.decode(report_data)? == digest,
            "the evidence does not bind nonce and key"
        );
        public_key(jwk)
    }

    fn hash(&self, bound: &Value) -> Vec<u8> {
        let bound = bound.to_string();
        match self.policy.hash {
            Some("sha256") => Sha256::digest(bound).to_vec(),
            Some("sha512") => Sha512::digest(bound).to_vec(),
            _ => Sha384::digest(bound).to_vec(),
        }
    }

    fn token(&self, key: PublicKey) -> Result<String> {
        // Opaque to guests; the form is a JWT's.
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": "ES256", "typ": "JWT"}));
        let claims = part(json!({"iss": "tests"}));
        let proof = URL_SAFE_NO_PAD.encode(random::<64>()?);
        let token = format!("{header}.{claims}.{proof}");
        lock(&self.tokens).insert(token.clone(), key);
        Ok(token)
    }

    /// `GET /resource/...`: by session or by token.
    fn resource(&self, asked: &Request, path: &str) -> Result<Answer, Refusal> {
        let key = self.proven_key(asked)?;
        let is_refused = self.policy.refused.iter().any(|refused| refused == path);
        if is_refused || !self.has_initdata(asked) {
            return Err(unauthorized("PolicyDeny", "Access denied by policy"));
        }
        let vault = lock(&self.vault);
        let secret = vault.get(path);
        let secret =
            secret.ok_or_else(|| unauthorized("PluginInternalError", "Plugin internal error"))?;
        let body = close(secret, &key).map_err(internal)?;
        Ok(Answer::new(200, &[JSON], body.to_string()))
    }

    /// Whether the initdata of the session is the one that is wanted, as the real client sends it.
    fn has_initdata(&self, asked: &Request) -> bool {
        let Some(wanted) = &self.policy.initdata else {
            return true;
        };
        let sessions = lock(&self.sessions);
        let session = session_id(asked).and_then(|id| sessions.get(&id));
        let wanted = json!({"format": "toml", "body": wanted});
        session.is_some_and(|session| session.initdata == wanted)
    }

    /// The key of the session or token that a request names; a good session wins.
    fn proven_key(&self, asked: &Request) -> Result<PublicKey, Refusal> {
        if let Some(key) = self.session_key(asked) {
            return Ok(key);
        }
        let Some(value) = asked.header("authorization") else {
            return Err(unauthorized("TokenNotFound", "Attestation Token not found"));
        };
        let token = value.strip_prefix("Bearer ");
        let key = token.and_then(|token| lock(&self.tokens).get(token).copied());
        key.ok_or_else(|| unauthorized("TokenVerifierError", "Token Verifier error"))
    }

    fn session_key(&self, asked: &Request) -> Option<PublicKey> {
        let mut sessions = lock(&self.sessions);
        let session = sessions.get_mut(&session_id(asked)?)?;
        session.used += 1;
        if self.policy.uses.is_some_and(|uses| session.used > uses) {
            return None;
        }
        session.key
    }
}

fn json_body(asked: &Request) -> Option<Value> {
    let kind = asked.header("content-type")?;
    let is_json = kind.starts_with("application/json");
    serde_json::from_str(&asked.body).ok().filter(|_| is_json)
}

/// The plugin that a path names, and the rest of the path.
fn plugin(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("/kbs/v0/")?.split_once('/')
}

/// The session's id in the cookies of a request.
fn session_id(asked: &Request) -> Option<String> {
    let cookies = asked.header("cookie")?;
    cookies
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value.to_owned())
}

fn unauthorized(kind: &'static str, detail: &str) -> Refusal {
    Refusal(401, kind, detail.to_owned())
}

fn handshake(failed: &str) -> Refusal {
    let detail = format!("Attestation error: RCAR handshake {failed}");
    unauthorized("AttestationError", &detail)
}

fn internal(error: anyhow::Error) -> Refusal {
    Refusal(500, "Internal", anyhow!(error).to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
