//! The containers of private keys: PKCS#8 (RFC 5958), PKCS#1 (RFC 8017 appendix A.1.2) and SEC1
//! (RFC 5915).
//!
//! The containers are only looked into, for kind and length; RSA goes on to aws-lc as PKCS#8, and
//! of a key on a curve goes on its number, so that nothing else that a container says has a
//! meaning.

use aws_lc_rs::agreement;
use aws_lc_rs::rsa::{OaepPrivateDecryptingKey, PrivateDecryptingKey};
use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, OctetStringRef, UintRef};
use der::{Decode, Encode, Sequence};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use sec1::EcPrivateKey;
use zeroize::Zeroizing;

use super::{KeyError, Kind, password};
use crate::algorithm::{CURVES, Curve};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// What a container is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Pkcs8,
    EncryptedPkcs8,
    Pkcs1,
    Sec1,
    /// DER alone does not say.
    None,
}

/// RFC 8017 appendix A.1.2.
#[derive(Sequence)]
pub(super) struct RsaPrivateKey<'a> {
    pub(super) version: u8,
    pub(super) modulus: UintRef<'a>,
    pub(super) public_exponent: UintRef<'a>,
    pub(super) private_exponent: UintRef<'a>,
    pub(super) prime1: UintRef<'a>,
    pub(super) prime2: UintRef<'a>,
    pub(super) exponent1: UintRef<'a>,
    pub(super) exponent2: UintRef<'a>,
    pub(super) coefficient: UintRef<'a>,
    /// Of a key with more than two primes, which other readers do not take either.
    pub(super) other_primes: Option<AnyRef<'a>>,
}

/// RFC 5958 section 3.
#[derive(Sequence)]
struct EncryptedPrivateKey<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    data: &'a OctetStringRef,
}

/// RFC 5280 section 4.1: a certificate, or a request for one, which has the same outline.
#[derive(Sequence)]
struct SignedDocument<'a> {
    content: AnyRef<'a>,
    algorithm: AlgorithmIdentifierRef<'a>,
    signature: BitStringRef<'a>,
}

/// Reads a container.
pub(super) fn read(label: Label, der: &[u8], password: Option<&[u8]>) -> Result<Kind, KeyError> {
    match label {
        Label::Pkcs8 => read_pkcs8(der).unwrap_or(Err(KeyError::Damaged("PKCS#8"))),
        Label::EncryptedPkcs8 => {
            read_encrypted(der, password).unwrap_or(Err(KeyError::Damaged("encrypted PKCS#8")))
        }
        Label::Pkcs1 => read_pkcs1(der).unwrap_or(Err(KeyError::Damaged("PKCS#1"))),
        Label::Sec1 => read_sec1(der, None).unwrap_or(Err(KeyError::Damaged("SEC1"))),
        Label::None => read_pkcs8(der)
            .or_else(|| read_pkcs1(der))
            .or_else(|| read_sec1(der, None))
            .or_else(|| read_encrypted(der, password))
            .unwrap_or_else(|| Err(name_other(der))),
    }
}

/// `None` if it is another container.
fn read_pkcs8(der: &[u8]) -> Option<Result<Kind, KeyError>> {
    let info = PrivateKeyInfoRef::from_der(der).ok()?;
    let key = info.private_key.as_bytes();
    Some(match info.algorithm.oid {
        RSA => read_pkcs1(key).unwrap_or(Err(KeyError::Damaged("PKCS#8"))),
        EC => match info.algorithm.parameters_oid() {
            Ok(oid) => read_sec1(key, Some(oid)).unwrap_or(Err(KeyError::Damaged("PKCS#8"))),
            Err(_) => Err(KeyError::Kind),
        },
        _ => Err(KeyError::Kind),
    })
}

fn read_encrypted(der: &[u8], password: Option<&[u8]>) -> Option<Result<Kind, KeyError>> {
    let encrypted = EncryptedPrivateKey::from_der(der).ok()?;
    let plain = match password::open(encrypted.algorithm, encrypted.data.as_bytes(), password) {
        Ok(plain) => plain,
        Err(error) => return Some(Err(error)),
    };
    // With a wrong password some padding is right by chance.
    Some(read_pkcs8(&plain).unwrap_or(Err(KeyError::Password)))
}

fn read_pkcs1(der: &[u8]) -> Option<Result<Kind, KeyError>> {
    let key = RsaPrivateKey::from_der(der).ok()?;
    if key.version != 0 || key.other_primes.is_some() {
        return Some(Err(KeyError::Kind));
    }
    Some(rsa(&key))
}

fn read_sec1(der: &[u8], curve: Option<ObjectIdentifier>) -> Option<Result<Kind, KeyError>> {
    let key = EcPrivateKey::from_der(der).ok()?;
    let inner = key.parameters.and_then(|parameters| parameters.named_curve());
    let oid = match (curve, inner) {
        (Some(outer), Some(inner)) if outer != inner => {
            return Some(Err(KeyError::Inconsistent));
        }
        (outer, inner) => outer.or(inner),
    };
    let Some(curve) = CURVES.iter().find(|curve| oid == Some(curve.oid)) else {
        return Some(Err(KeyError::Kind));
    };
    Some(ec(curve, key.private_key, key.public_key))
}

/// Checks an RSA key and hands it to the library.
pub(super) fn rsa(key: &RsaPrivateKey<'_>) -> Result<Kind, KeyError> {
    let modulus = key.modulus.as_bytes();
    let leading = modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    if !(2048..=8192).contains(&(8 * modulus.len()).saturating_sub(leading)) {
        return Err(KeyError::RsaLength);
    }
    let pkcs1 = Zeroizing::new(key.to_der().map_err(|_| KeyError::Inconsistent)?);
    let algorithm = AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::NULL) };
    let inner = OctetStringRef::new(&pkcs1).map_err(|_| KeyError::Inconsistent)?;
    let pkcs8 = PrivateKeyInfoRef::new(algorithm, inner).to_der();
    let pkcs8 = Zeroizing::new(pkcs8.map_err(|_| KeyError::Inconsistent)?);
    let key = PrivateDecryptingKey::from_pkcs8(&pkcs8).map_err(|_| KeyError::Inconsistent)?;
    let key = OaepPrivateDecryptingKey::new(key).map_err(|_| KeyError::Inconsistent)?;
    Ok(Kind::Rsa(key))
}

/// Checks the number of a key on a curve, which must be as long as the curve wants it, or shorter
/// where a writer left zeros out; and that the public half, if there is one, is this key's.
pub(super) fn ec(
    curve: &'static Curve,
    number: &[u8],
    public: Option<&[u8]>,
) -> Result<Kind, KeyError> {
    let missing = curve.field_bytes.checked_sub(number.len());
    let missing = missing.filter(|_| !number.is_empty());
    let mut padded = Zeroizing::new(vec![0; missing.ok_or(KeyError::Inconsistent)?]);
    padded.reserve_exact(number.len());
    padded.extend_from_slice(number);
    let key = agreement::PrivateKey::from_private_key(curve.agreement, &padded)
        .map_err(|_| KeyError::Inconsistent)?;
    if let Some(public) = public {
        let own = key.compute_public_key();
        let own = own.map_err(|_| KeyError::Inconsistent)?;
        // Compressed, only the first half can be compared.
        let half = own.as_ref().get(1..=curve.field_bytes);
        let is_own = match public.first() {
            Some(2 | 3) => public.get(1..) == half,
            _ => public == own.as_ref(),
        };
        if !is_own {
            return Err(KeyError::Inconsistent);
        }
    }
    Ok(Kind::Ec { curve, key })
}

/// Names DER that is no private key.
fn name_other(der: &[u8]) -> KeyError {
    if SubjectPublicKeyInfoRef::from_der(der).is_ok() {
        return KeyError::SomethingElse(
            "a public key, which decrypts nothing; give the private key that belongs to it",
        );
    }
    if SignedDocument::from_der(der).is_ok() {
        return KeyError::SomethingElse(
            "DER with the outline of a certificate, which holds no private key; give the private \
            key that belongs to it",
        );
    }
    KeyError::Damaged("DER")
}
