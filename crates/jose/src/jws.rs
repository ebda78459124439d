//! JSON Web Signatures (RFC 7515), verified: the compact form, ES256 and nothing else.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};

use crate::algorithm::{Curve, shown};
use crate::json::{self, Kind, Value};
use crate::key::{curve_of, public_point};

/// How long a message or a key may be, in bytes: many times what a sealed secret takes. Raising it
/// breaks nothing.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// A public key on P-256 that a signature is judged by.
#[derive(Debug, Clone)]
pub struct VerifyingKey(ParsedPublicKey);

/// A signed message of which nothing is believed yet.
#[derive(Clone)]
pub struct Jws {
    kid: Option<String>,
    signed: Vec<u8>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// Why a message or its key is not believed. The words fit after "failed to verify: " and repeat
/// nothing of either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwsError {
    /// Longer than [`MAX_TEXT_BYTES`].
    #[error("it has more than {MAX_TEXT_BYTES} bytes")]
    TooLong,
    /// Not the compact form of RFC 7515, or two readers could read it differently.
    #[error("the signed message {0}")]
    Malformed(&'static str),
    /// Signed in another way than with ES256, or not at all.
    #[error("the message is signed with {0}, which is not supported; sign with ES256")]
    Algorithm(&'static str),
    /// It has extensions that must be understood (`crit`).
    #[error(
        "the message has critical extensions (crit, or b64 other than true), and none is \
        supported"
    )]
    Critical,
    /// Not a key that ES256 can be verified with.
    #[error("the verification key {0}; give the public JWK of a key on P-256")]
    Key(&'static str),
    /// The signature is not by this key, or the message was changed.
    #[error("the signature is not by this key, or the message was changed")]
    Forged,
}

/// No foreign bytes.
impl std::fmt::Debug for Jws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jws").finish_non_exhaustive()
    }
}

impl VerifyingKey {
    /// Reads a public JWK.
    ///
    /// # Errors
    ///
    /// If it is none on P-256, is for something else, or holds a private key, which has no business
    /// where public ones are kept.
    pub fn from_jwk(text: &[u8]) -> Result<Self, JwsError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(JwsError::TooLong);
        }
        let jwk = json::object(text).map_err(JwsError::Key)?;
        let is = |name, want| match jwk.last(name) {
            Some(value) => value.text() == Some(want),
            None => true,
        };
        if !is("use", "sig") || !is("alg", "ES256") {
            return Err(JwsError::Key(
                "is for something else (use, alg) than signatures with ES256",
            ));
        }
        if jwk.last("d").is_some() {
            return Err(JwsError::Key("is a private key"));
        }
        if curve_of(&jwk) != Some(Curve::P256) {
            return Err(JwsError::Key("is not an EC key on P-256"));
        }
        let point = public_point(Curve::P256, &jwk)
            .ok_or(JwsError::Key("has no coordinates (x, y) of 32 bytes each"))?;
        ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .map(Self)
            .map_err(|_| JwsError::Key("is no point of its curve"))
    }
}

impl Jws {
    /// Reads a message: three parts with dots between.
    ///
    /// Keys that the header carries or points to (`jwk`, `jku`, `x5c`) are what the sender says,
    /// and have no meaning here.
    ///
    /// # Errors
    ///
    /// If it is of another form or signed in another way.
    pub fn parse_compact(text: &[u8]) -> Result<Self, JwsError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(JwsError::TooLong);
        }
        let form = || JwsError::Malformed("is not three parts with dots between");
        let text = str::from_utf8(text).map_err(|_| form())?;
        let (signed, signature) = text.rsplit_once('.').ok_or_else(form)?;
        let (header, payload) = signed.split_once('.').ok_or_else(form)?;
        if payload.contains('.') {
            return Err(form());
        }
        let decode = |part| {
            json::base64url(part)
                .ok_or(JwsError::Malformed("has a part that is not base64url without padding"))
        };
        let header = decode(header)?;
        let header = json::object(&header).map_err(|_| {
            JwsError::Malformed("has a header that is no JSON object, or has a member twice")
        })?;
        // `b64` changes what the signature is over, unless it is true, the default (RFC 7797).
        // CoCo's `secret` always writes that.
        let b64 = header.last("b64").map(|value| &value.kind);
        let is_default = matches!(b64, None | Some(Kind::Bool(true)));
        if header.last("crit").is_some() || !is_default {
            return Err(JwsError::Critical);
        }
        match header.last("alg").and_then(Value::text) {
            Some("ES256") => {}
            Some(name) => return Err(JwsError::Algorithm(shown(name))),
            None => return Err(JwsError::Malformed("does not say how it is signed (alg)")),
        }
        let kid = match header.last("kid").map(Value::text) {
            None => None,
            Some(Some(kid)) => Some(kid.to_owned()),
            Some(None) => return Err(JwsError::Malformed("has a kid that is no text")),
        };
        let signature = decode(signature)?;
        if signature.len() != 64 {
            return Err(JwsError::Malformed("has a signature of another length than 64 bytes"));
        }
        Ok(Self {
            kid,
            signed: signed.as_bytes().to_vec(),
            payload: decode(payload)?.to_vec(),
            signature: signature.to_vec(),
        })
    }

    /// What the message says about its key. Anyone can have written it: it may lead to a key, and
    /// the key has to be trusted on its own.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The payload, if the signature over it is by `key`.
    ///
    /// # Errors
    ///
    /// [`JwsError::Forged`].
    pub fn verify(&self, key: &VerifyingKey) -> Result<Vec<u8>, JwsError> {
        match key.0.verify_sig(&self.signed, &self.signature) {
            Ok(()) => Ok(self.payload.clone()),
            Err(_) => Err(JwsError::Forged),
        }
    }
}
