//! Layers' keys wrapped for a key broker instead of a key pair.
//!
//! `skopeo` wraps for public keys. What `coco_keyprovider` would have written is made of that: the
//! JWE is opened (`openssl` and RustCrypto's AES), and its content, the private options, closed
//! again in a packet that names the key by its URI.

use aes::Aes256;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher as _};
use serde_json::{Value, json};

use super::image::{Encrypted, text};
use super::{JWE, Key, PACKET, Surgery};
use crate::random;
use vm_harness::Scratch;

/// How a packet is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapType {
    /// With a tag that nobody can forge.
    A256Gcm,
    /// Without one.
    A256Ctr,
}

/// The packet's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Four members.
    One,
    /// Eight.
    Two,
}

/// A key-encryption key and the form of the packets.
#[derive(Clone, Debug)]
pub struct Rewrap {
    /// The key's URI, `kbs:///repository/type/tag`.
    pub kid: String,
    /// The key-encryption key.
    pub key: [u8; 32],
    /// How packets are closed.
    pub wrap_type: WrapType,
    /// Their version.
    pub version: Version,
    /// Who unwraps them, where the version says it.
    pub provider: &'static str,
}

impl Rewrap {
    /// A new key with this URI, and packets as `coco_keyprovider` writes them.
    ///
    /// # Errors
    ///
    /// Where there is no randomness.
    pub fn new(kid: &str) -> Result<Self> {
        Ok(Self {
            kid: kid.to_owned(),
            key: random()?,
            wrap_type: WrapType::A256Gcm,
            version: Version::One,
            provider: "kbs",
        })
    }

    /// The image with packets in the place of the JWE, made with the RSA key that it was encrypted
    /// for.
    ///
    /// # Errors
    ///
    /// Where a JWE is not as `skopeo` writes it for one RSA key.
    pub fn apply(
        &self,
        scratch: &Scratch,
        name: &str,
        image: &Encrypted,
        key: &Key,
    ) -> Result<Encrypted> {
        self.apply_changed(scratch, name, image, key, |_| ())
    }

    /// As [`Rewrap::apply`], with private options that `change` has changed.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn apply_changed(
        &self,
        scratch: &Scratch,
        name: &str,
        image: &Encrypted,
        key: &Key,
        change: impl Fn(&mut Value),
    ) -> Result<Encrypted> {
        let mut surgery = Surgery::begin(scratch, name, image)?;
        for place in 0..image.layers()?.len() {
            let annotations = &mut surgery.layer(place)["annotations"];
            let Ok(jwe) = text(annotations, JWE) else {
                continue;
            };
            let mut options = private_options(jwe, key)?;
            change(&mut options);
            let packet = self.packet(options.to_string().as_bytes())?;
            annotations[PACKET] = json!(STANDARD.encode(packet));
            surgery.remove_annotation(place, JWE)?;
        }
        surgery.finish()
    }

    /// A packet with these private options.
    fn packet(&self, options: &[u8]) -> Result<String> {
        let (iv, wrapped) = match self.wrap_type {
            WrapType::A256Gcm => {
                let iv: [u8; 12] = random()?;
                (iv.to_vec(), seal(&self.key, &iv, options, b"")?)
            }
            WrapType::A256Ctr => {
                let iv: [u8; 16] = random()?;
                let mut bytes = options.to_vec();
                Ctr128BE::<Aes256>::new(&self.key.into(), &iv.into()).apply_keystream(&mut bytes);
                (iv.to_vec(), bytes)
            }
        };
        let wrap_type = match self.wrap_type {
            WrapType::A256Gcm => "A256GCM",
            WrapType::A256Ctr => "A256CTR",
        };
        let mut packet = json!({
            "kid": self.kid,
            "wrapped_data": STANDARD.encode(wrapped),
            "iv": STANDARD.encode(iv),
            "wrap_type": wrap_type,
        });
        if self.version == Version::Two {
            packet["version"] = json!("0.1.0");
            packet["provider"] = json!(self.provider);
            packet["provider_settings"] = json!({});
            packet["annotations"] = json!({});
        }
        Ok(packet.to_string())
    }
}

/// Closes `plain` with AES-256-GCM; the tag follows the ciphertext.
fn seal(key: &[u8; 32], iv: &[u8; 12], plain: &[u8], aad: &[u8]) -> Result<Vec<u8>> {
    let payload = Payload { msg: plain, aad };
    let sealed = Aes256Gcm::new(key.into()).encrypt(&Nonce::from(*iv), payload);
    sealed.map_err(|_| anyhow!("failed to encrypt"))
}

/// Opens what [`seal`] has closed.
pub(crate) fn open_gcm(
    key: &[u8; 32],
    iv: &[u8; 12],
    sealed: &[u8],
    aad: &[u8],
) -> Result<Vec<u8>> {
    let payload = Payload { msg: sealed, aad };
    let opened = Aes256Gcm::new(key.into()).decrypt(&Nonce::from(*iv), payload);
    opened.map_err(|_| anyhow!("the key does not open it"))
}

/// Opens an annotation with one flattened JWE, `RSA-OAEP` and `A256GCM`.
pub(super) fn private_options(annotation: &str, key: &Key) -> Result<Value> {
    let jwe: Value = serde_json::from_slice(&STANDARD.decode(annotation)?)?;
    let part = |name: &str| -> Result<Vec<u8>> { Ok(URL_SAFE_NO_PAD.decode(text(&jwe, name)?)?) };
    let header: Value = serde_json::from_slice(&part("protected")?)?;
    ensure!(
        header["alg"] == "RSA-OAEP" && header["enc"] == "A256GCM",
        "a JWE for one RSA key was expected"
    );
    let content_key = key.open_oaep(&part("encrypted_key")?)?;
    let content_key: [u8; 32] =
        content_key.try_into().map_err(|_| anyhow!("a content key of 32 bytes was expected"))?;
    let iv: [u8; 12] =
        part("iv")?.try_into().map_err(|_| anyhow!("an IV of 12 bytes was expected"))?;
    let sealed = [part("ciphertext")?, part("tag")?].concat();
    let aad = text(&jwe, "protected")?.as_bytes();
    let opened = open_gcm(&content_key, &iv, &sealed, aad)?;
    serde_json::from_slice(&opened).context("the private options are no JSON")
}
