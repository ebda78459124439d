//! The content, decrypted and authenticated (RFC 7518 section 5).

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use crate::algorithm::{ContentCipher, ContentEncryption};

/// A message's content, with lengths that fit how it is encrypted.
#[derive(Clone)]
pub(super) struct Content {
    pub(super) encryption: &'static ContentEncryption,
    /// What is authenticated beside the content.
    pub(super) authenticated: Vec<u8>,
    pub(super) iv: Vec<u8>,
    pub(super) ciphertext: Vec<u8>,
    pub(super) tag: Vec<u8>,
}

impl Content {
    /// The content, if it was encrypted with this key, whose length fits, and not changed since.
    pub(super) fn open(&self, key: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let gcm = match self.encryption.cipher {
            ContentCipher::Gcm(gcm) => gcm,
            ContentCipher::CbcHmac(cipher, mac) => return self.open_cbc(key, cipher, mac),
        };
        let key = LessSafeKey::new(UnboundKey::new(gcm, key).ok()?);
        let nonce = Nonce::try_assume_unique_for_key(&self.iv).ok()?;
        let aad = Aad::from(&self.authenticated);
        let mut plain = Zeroizing::new(vec![0; self.ciphertext.len()]);
        key.open_separate_gather(nonce, aad, &self.ciphertext, &self.tag, &mut plain).ok()?;
        Some(plain)
    }

    /// RFC 7518 section 5.2.2.2: the tag is judged before anything is decrypted, so the padding
    /// leaks nothing.
    fn open_cbc(
        &self,
        key: &[u8],
        cipher: &'static Algorithm,
        mac: hmac::Algorithm,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let (mac_key, encryption_key) = key.split_at_checked(key.len() / 2)?;
        let mut context = hmac::Context::with_key(&hmac::Key::new(mac, mac_key));
        context.update(&self.authenticated);
        context.update(&self.iv);
        context.update(&self.ciphertext);
        let bits = u64::try_from(self.authenticated.len()).ok()?.checked_mul(8)?;
        context.update(&bits.to_be_bytes());
        let tag = context.sign();
        verify_slices_are_equal(tag.as_ref().get(..self.tag.len())?, &self.tag).ok()?;

        let iv: [u8; 16] = self.iv.as_slice().try_into().ok()?;
        let key = UnboundCipherKey::new(cipher, encryption_key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let mut room = Zeroizing::new(self.ciphertext.clone());
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        let length = key.decrypt(&mut room, context).ok()?.len();
        room.truncate(length);
        Some(room)
    }
}
