//! Whether a private key is that of a certificate.

use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use der::Decode as _;
use x509_cert::Certificate;

/// Whether the public half of a private key (DER of PKCS#8, PKCS#1 or SEC1) is the one that a
/// certificate (DER) is for. `None` where either cannot be read, or the key is of a kind that TLS
/// here cannot use: RSA, Ed25519, and EC on P-256, P-384 and P-521 can.
pub fn belongs_to(private_key: &[u8], certificate: &[u8]) -> Option<bool> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let info = certificate.tbs_certificate().subject_public_key_info();
    let wanted = info.subject_public_key.raw_bytes();
    let public = public_half(private_key)?;
    Some(public == wanted)
}

/// The public key as certificates have it behind its algorithm.
fn public_half(key: &[u8]) -> Option<Vec<u8>> {
    if let Ok(pair) = RsaKeyPair::from_pkcs8(key).or_else(|_| RsaKeyPair::from_der(key)) {
        return Some(pair.public_key().as_ref().to_vec());
    }
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key) {
        return Some(pair.public_key().as_ref().to_vec());
    }
    let curves = [
        &ECDSA_P256_SHA256_ASN1_SIGNING,
        &ECDSA_P384_SHA384_ASN1_SIGNING,
        &ECDSA_P521_SHA512_ASN1_SIGNING,
    ];
    let pair =
        curves.into_iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, key).ok())?;
    Some(pair.public_key().as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    };

    use super::belongs_to;

    #[test]
    fn a_key_belongs_to_its_own_certificate_only() {
        let algorithms = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];
        let pairs = algorithms.map(|algorithm| {
            [(); 2].map(|()| {
                let key = KeyPair::generate_for(algorithm).unwrap();
                let params = CertificateParams::new(vec!["robot".to_owned()]).unwrap();
                let certificate = params.self_signed(&key).unwrap();
                (certificate.der().to_vec(), key.serialize_der())
            })
        });
        for [(certificate, key), (other, _)] in &pairs {
            assert_eq!(belongs_to(key, certificate), Some(true));
            assert_eq!(belongs_to(key, other), Some(false));
            assert_eq!(belongs_to(key, b"junk"), None);
            assert_eq!(belongs_to(b"junk", certificate), None);
        }
        assert_eq!(belongs_to(&pairs[0][0].1, &pairs[1][0].0), Some(false));
    }
}
