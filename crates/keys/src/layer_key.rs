//! The key of one layer, with everything else that it takes to decrypt and to judge it.

use std::fmt;

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use foreign_text::hex;
use oci_image::digest::Digest;
use zeroize::Zeroizing;

use crate::decryptor::{Decryptor, Forged};
use crate::members::{self, InvalidJson};
use crate::options::{
    HMAC_BYTES, InvalidOptions, KEY_BYTES, MAX_OPTIONS_BYTES, NONCE_BYTES, PublicOptions,
};

/// What [`LayerKey::tag`] hashes before the diff ID, so that it is no HMAC of any layer.
const TAG_LABEL: &[u8] = b"configdev: the name of a decrypted layer\0";

/// The key of one layer.
#[derive(Clone)]
pub struct LayerKey {
    pub(crate) key: Zeroizing<[u8; KEY_BYTES]>,
    pub(crate) nonce: Zeroizing<[u8; NONCE_BYTES]>,
    hmac: [u8; HMAC_BYTES],
}

impl LayerKey {
    /// Reads the private options, which are the JSON that any wrapping wraps.
    ///
    /// Their `digest` is not read. buildah and skopeo write the digest of the blob that they
    /// compressed and encrypted in one step, which is nowhere in the image that they made.
    ///
    /// # Errors
    ///
    /// [`InvalidOptions`], which says nothing of what is in them.
    pub fn parse(private: &[u8], public: &PublicOptions) -> Result<Self, InvalidOptions> {
        let options = members::object(private, MAX_OPTIONS_BYTES)?;
        let cipher = members::inner(&options, "cipheroptions")?;
        let cipher = cipher.ok_or(InvalidJson::Missing("cipheroptions"))?;
        Ok(Self {
            key: members::array(&options, "symkey")?,
            nonce: members::array(cipher, "nonce")?,
            hmac: public.hmac,
        })
    }

    /// The cipher at the beginning of the layer.
    ///
    /// # Errors
    ///
    /// [`Forged::Library`].
    pub fn decryptor(&self) -> Result<Decryptor, Forged> {
        Decryptor::new(&self.key, *self.nonce, self.hmac)
    }

    /// A name for the unpacked layer that only holders of the key can compute: HMAC-SHA256 of a
    /// label and the diff ID.
    ///
    /// The diff ID is in the image's configuration, which is not encrypted. Under the diff ID as
    /// its name, a stranger's image that is pulled without the key would be given the plain layer
    /// of another one.
    pub fn tag(&self, diff_id: &Digest) -> Digest {
        let mut context = Context::with_key(&Key::new(HMAC_SHA256, &self.key[..]));
        context.update(TAG_LABEL);
        context.update(diff_id.to_string().as_bytes());
        let text = format!("sha256:{}", hex::encode(context.sign().as_ref()));
        #[expect(clippy::expect_used, reason = "the prefix and 64 lower-case digits are a digest")]
        Digest::parse(&text).expect("an HMAC-SHA256 in the form of a digest")
    }
}

impl fmt::Debug for LayerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LayerKey")
    }
}

#[cfg(test)]
mod tests;
