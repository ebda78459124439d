//! JSON Web Keys (RFC 7517, RFC 7518 section 6).

use der::asn1::UintRef;
use zeroize::Zeroizing;

use super::der::RsaPrivateKey;
use super::{KeyError, Kind, der as container};
use crate::algorithm::{Curve, KeyAlgorithm, shown};
use crate::json::{self, Object, Value};

/// Reads a private JWK, with the one algorithm that it is for, if it names one.
pub(super) fn read(text: &[u8]) -> Result<(Kind, Option<&'static KeyAlgorithm>), KeyError> {
    let jwk = json::object(text).map_err(KeyError::Jwk)?;
    if matches!(jwk.last("use"), Some(purpose) if purpose.text() != Some("enc")) {
        return Err(KeyError::Jwk("is not for encryption (use)"));
    }
    let kind = match text_of(&jwk, "kty") {
        Some("RSA") => read_rsa(&jwk)?,
        Some("EC") => read_ec(&jwk)?,
        None if jwk.last("keys").is_some() => {
            return Err(KeyError::Jwk("is a set of keys; give them one by one"));
        }
        None => return Err(KeyError::Jwk("does not say what kind of key it is (kty)")),
        Some(_) => return Err(KeyError::Kind),
    };
    let algorithm = match jwk.last("alg") {
        None => None,
        Some(name) => {
            let name = name.text().unwrap_or_default();
            let algorithm = KeyAlgorithm::from_name(name);
            let algorithm = algorithm
                .filter(|algorithm| algorithm.oaep.is_some() == matches!(kind, Kind::Rsa(_)));
            Some(algorithm.ok_or(KeyError::JwkAlgorithm(shown(name)))?)
        }
    };
    Ok((kind, algorithm))
}

/// The curve that a JWK names, if it is an EC key on one of ours.
fn curve_of(jwk: &Object<'_>) -> Option<&'static Curve> {
    text_of(jwk, "kty").filter(|kind| *kind == "EC")?;
    text_of(jwk, "crv").and_then(Curve::from_name)
}

/// A JWK's public point, uncompressed as SEC1 has it. Both coordinates must be as long as the curve
/// wants them (RFC 7518 section 6.2.1.2); the library checks that they are a point of it.
pub(crate) fn public_point(curve: &Curve, jwk: &Object<'_>) -> Option<Vec<u8>> {
    let mut point = vec![4];
    for name in ["x", "y"] {
        let coordinate = json::base64url(text_of(jwk, name)?)?;
        if coordinate.len() != curve.field_bytes {
            return None;
        }
        point.extend_from_slice(&coordinate);
    }
    Some(point)
}

fn read_ec(jwk: &Object<'_>) -> Result<Kind, KeyError> {
    let curve = curve_of(jwk).ok_or(KeyError::Kind)?;
    let public = public_point(curve, jwk)
        .ok_or(KeyError::Jwk("has no coordinates (x, y) of its curve's length"))?;
    let number = number(jwk, "d")?;
    if number.len() != curve.field_bytes {
        return Err(KeyError::Jwk("has a private key (d) of a wrong length"));
    }
    container::ec(curve, &number, Some(&public))
}

fn read_rsa(jwk: &Object<'_>) -> Result<Kind, KeyError> {
    if jwk.last("oth").is_some() {
        return Err(KeyError::Kind);
    }
    const NAMES: [&str; 8] = ["n", "e", "d", "p", "q", "dp", "dq", "qi"];
    let mut numbers = Vec::with_capacity(NAMES.len());
    for name in NAMES {
        numbers.push(number(jwk, name)?);
    }
    let mut numbers = numbers.iter();
    let mut next = || {
        let bytes = numbers.next().ok_or(KeyError::Inconsistent)?;
        UintRef::new(bytes).map_err(|_| KeyError::Inconsistent)
    };
    container::rsa(&RsaPrivateKey {
        version: 0,
        modulus: next()?,
        public_exponent: next()?,
        private_exponent: next()?,
        prime1: next()?,
        prime2: next()?,
        exponent1: next()?,
        exponent2: next()?,
        coefficient: next()?,
        other_primes: None,
    })
}

fn text_of<'a>(jwk: &'a Object<'_>, name: &str) -> Option<&'a str> {
    jwk.last(name).and_then(Value::text)
}

fn number(jwk: &Object<'_>, name: &'static str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let text = text_of(jwk, name).ok_or(KeyError::Jwk(match name {
        "d" => "is a public key, which decrypts nothing; give the private one",
        "n" | "e" => "has no n or no e",
        _ => "has no p, q, dp, dq and qi, which are needed; export it again with them",
    }))?;
    json::base64url(text).ok_or(KeyError::Jwk("has a number that is not base64url without padding"))
}
