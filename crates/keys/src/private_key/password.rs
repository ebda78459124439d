//! PKCS#8 that is encrypted with a password: PBES2 (RFC 8018) with AES.
//!
//! The key itself names the cost of trying a password, so that cost is checked before any work
//! begins.

use pkcs8::pkcs5::pbes2::{Kdf, Parameters, ScryptParams};
use pkcs8::pkcs5::{self, EncryptionScheme};
use pkcs8::spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use super::KeyError;

/// The most iterations of PBKDF2. OpenSSL's default is 2048, and 600,000 are advised. At the
/// limit, a password takes some seconds. Raising it breaks nothing.
const MAX_ITERATIONS: u32 = 2_000_000;

/// The most blocks of 128 bytes that scrypt may keep (N times r): 64 MiB. OpenSSL's default takes
/// 16 MiB, and 32 is all that it reads.
const MAX_SCRYPT_BLOCKS: u64 = 1 << 19;

/// The most blocks that scrypt may process (N times r times p): some seconds. OpenSSL's default is
/// an eighth of this.
const MAX_SCRYPT_WORK: u64 = 1 << 20;

/// Decrypts a key.
///
/// # Errors
///
/// A wrong password and a changed key give the same error.
pub(super) fn open(
    algorithm: AlgorithmIdentifierRef<'_>,
    data: &[u8],
    password: Option<&[u8]>,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let scheme = EncryptionScheme::try_from(algorithm).map_err(|_| KeyError::Encryption)?;
    let Some(parameters) = scheme.pbes2() else {
        return Err(KeyError::Encryption);
    };
    check_cost(parameters)?;
    let password = password.ok_or(KeyError::PasswordMissing)?;
    let mut room = Zeroizing::new(data.to_vec());
    match parameters.decrypt_in_place(password, &mut room) {
        Ok(plain) => Ok(Zeroizing::new(plain.to_vec())),
        Err(
            pkcs5::Error::UnsupportedAlgorithm { .. }
            | pkcs5::Error::AlgorithmParametersInvalid { .. },
        ) => Err(KeyError::Encryption),
        Err(_) => Err(KeyError::Password),
    }
}

fn check_cost(parameters: &Parameters) -> Result<(), KeyError> {
    match &parameters.kdf {
        Kdf::Pbkdf2(pbkdf2) if pbkdf2.iteration_count == 0 => Err(KeyError::Encryption),
        Kdf::Pbkdf2(pbkdf2) if pbkdf2.iteration_count > MAX_ITERATIONS => {
            Err(KeyError::Cost("more than 2,000,000 iterations of PBKDF2"))
        }
        Kdf::Pbkdf2(_) => Ok(()),
        Kdf::Scrypt(scrypt) => check_scrypt(scrypt),
        _ => Err(KeyError::Encryption),
    }
}

fn check_scrypt(scrypt: &ScryptParams) -> Result<(), KeyError> {
    let (n, r, p) =
        (scrypt.cost_parameter, u64::from(scrypt.block_size), u64::from(scrypt.parallelization));
    // The library below computes a logarithm of N and does not expect it to be 0.
    if !n.is_power_of_two() || n < 2 || r == 0 || p == 0 {
        return Err(KeyError::Encryption);
    }
    let blocks = n.saturating_mul(r);
    if blocks > MAX_SCRYPT_BLOCKS || blocks.saturating_mul(p) > MAX_SCRYPT_WORK {
        return Err(KeyError::Cost("more than 64 MiB, or too many rounds, of scrypt"));
    }
    Ok(())
}
