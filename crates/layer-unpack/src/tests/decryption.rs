//! Encrypted layers, made with `openssl`, as they were encrypted and as somebody without the key
//! would have them.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keys::PublicOptions;

use super::*;

const KEY: [u8; 32] = [0x5a; 32];
const NONCE: [u8; 16] = *b"0123456789abcdef";

/// Whether layers can be encrypted here. Where every test has to run, a missing program is a
/// failure.
pub(super) fn has_openssl() -> bool {
    let version = Command::new("openssl").arg("version").output();
    let is_there = version.is_ok_and(|output| output.status.success());
    assert!(is_there || std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(), "openssl is missing");
    if !is_there {
        eprintln!("skipped, there is no openssl");
    }
    is_there
}

/// Ends the test that calls it where there is no openssl.
macro_rules! needs_openssl {
    () => {
        if !has_openssl() {
            return;
        }
    };
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn openssl(input: &[u8], arguments: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("in"), directory.path().join("out"));
    fs::write(&from, input).unwrap();
    let output = Command::new("openssl")
        .args(arguments)
        .arg("-out")
        .arg(&to)
        .stdin(fs::File::open(&from).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    fs::read(to).unwrap()
}

/// An encrypted layer, with what its annotations and its key's owner say.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) ciphertext: Vec<u8>,
    nonce: [u8; 16],
    hmac: Vec<u8>,
    /// What the tool says that it began with.
    source_digest: Digest,
    /// Of the archive.
    diff_id: Digest,
}

impl Sealed {
    pub(super) fn new(compressed: &[u8], archive: &[u8]) -> Self {
        Self::with_nonce(NONCE, compressed, archive)
    }

    fn with_nonce(nonce: [u8; 16], compressed: &[u8], archive: &[u8]) -> Self {
        let (key, iv) = (hex(&KEY), hex(&nonce));
        let ciphertext = openssl(compressed, &["enc", "-aes-256-ctr", "-K", &key, "-iv", &iv]);
        assert_eq!(ciphertext.len(), compressed.len());
        assert!(ciphertext.is_empty() || ciphertext != compressed);
        let option = format!("hexkey:{key}");
        let hmac = ["dgst", "-sha256", "-mac", "HMAC", "-macopt", &option, "-binary"];
        Self {
            hmac: openssl(&ciphertext, &hmac),
            ciphertext,
            nonce,
            source_digest: digest_of(compressed),
            diff_id: digest_of(archive),
        }
    }

    pub(super) fn key(&self) -> LayerKey {
        let public = format!(
            r#"{{"cipher":"AES_256_CTR_HMAC_SHA256","hmac":"{}","cipheroptions":{{}}}}"#,
            STANDARD.encode(&self.hmac)
        );
        let private = format!(
            r#"{{"symkey":"{}","digest":"{}","cipheroptions":{{"nonce":"{}"}}}}"#,
            STANDARD.encode(KEY),
            self.source_digest,
            STANDARD.encode(self.nonce)
        );
        let public = PublicOptions::parse(public.as_bytes()).unwrap();
        LayerKey::parse(private.as_bytes(), &public).unwrap()
    }

    fn expected(&self) -> Expected {
        expected(&self.ciphertext)
    }

    /// With a digest of whatever the ciphertext became, as somebody who serves another manifest has
    /// it.
    fn unpack(&self) -> (tempfile::TempDir, Result<Unpacked, LayerError>) {
        let directory = tempfile::tempdir().unwrap();
        let (path, key) = (directory.path(), self.key());
        let (source, expected) = (chunks(&self.ciphertext), self.expected());
        let result = unpack_into(path, source, &expected, Some(&key), &self.diff_id);
        (directory, result)
    }

    fn forged(&self) -> Forged {
        match self.unpack().1 {
            Err(LayerError::Decryption(forged)) => forged,
            result => panic!("{result:?}"),
        }
    }
}

/// Larger than all buffers together, and no multiple of anything.
fn large() -> Vec<u8> {
    Tar::default().file("large", noise(5_000_001)).bytes()
}

#[test]
fn privileged_an_encrypted_layer_is_unpacked_like_a_plain_one() {
    vm_harness::needs_root!();
    needs_openssl!();
    let archive = large();
    let zstd = zstd::encode_all(&archive[..], 1).unwrap();
    for compressed in [&archive, &gzip(&archive), &zstd] {
        // All of the counter wraps after the first block, or the lower half, which has to carry
        // over.
        let half = [[0x11; 8], [0xff; 8]].concat();
        for nonce in [NONCE, [0xff; 16], half.try_into().unwrap()] {
            let sealed = Sealed::with_nonce(nonce, compressed, &archive);
            let (directory, result) = sealed.unpack();
            let unpacked = result.unwrap();
            assert_eq!(unpacked.entries, 1);
            assert_eq!(unpacked.plain_bytes, archive.len() as u64);
            let content = fs::read(directory.path().join("large")).unwrap();
            assert!(content == noise(5_000_001));
        }
    }
}

#[test]
fn an_empty_layer_is_what_it_is_without_encryption() {
    needs_openssl!();
    for archive in [Tar::default().bytes(), Vec::new()] {
        let plain = unpack_blob(&archive, &archive).1;
        let (_directory, result) = Sealed::new(&archive, &archive).unpack();
        assert_eq!(format!("{result:?}"), format!("{plain:?}"));
        let mut other = Sealed::new(&archive, &archive);
        other.hmac[0] ^= 1;
        assert_eq!(other.forged(), Forged::Hmac);
    }
}

/// Whoever has no key but can write the manifest. Everything is refused with one reason, whatever
/// it broke on the way: the first byte breaks the compression, one in the middle the content, the
/// last one nothing but a check.
#[test]
fn changed_ciphertext_is_known_by_its_hmac() {
    needs_openssl!();
    let archive = large();
    let zstd = zstd::encode_all(&archive[..], 1).unwrap();
    for compressed in [&archive, &gzip(&archive), &zstd] {
        let sealed = Sealed::new(compressed, &archive);
        let last = compressed.len() - 1;
        for at in [0, 300, last / 2, last] {
            let mut changed = sealed.clone();
            changed.ciphertext[at] ^= 1;
            assert_eq!(changed.forged(), Forged::Hmac, "byte {at}");
        }
        let mut cut = sealed.clone();
        cut.ciphertext.truncate(last);
        assert_eq!(cut.forged(), Forged::Hmac);
        cut.ciphertext.clear();
        assert_eq!(cut.forged(), Forged::Hmac);
        let mut longer = sealed.clone();
        longer.ciphertext.push(0);
        assert_eq!(longer.forged(), Forged::Hmac);
        let mut plain = sealed.clone();
        plain.ciphertext.clone_from(compressed);
        assert_eq!(plain.forged(), Forged::Hmac);
    }
}

/// buildah and skopeo compress and encrypt in one step, and wrap the digest of what they began
/// with.
#[test]
fn the_digest_that_was_wrapped_is_that_of_a_tools_source() {
    needs_openssl!();
    let archive = Tar::default().bytes();
    let mut sealed = Sealed::new(&gzip(&archive), &archive);
    for source in [digest_of(&archive), digest_of(b"the blob of a tool's source")] {
        sealed.source_digest = source;
        sealed.unpack().1.unwrap();
    }
}

/// The HMAC is right, so this takes somebody who had the key, or a mistake of theirs: the HMAC
/// covers no nonce, and layers may be swapped together with their annotations.
#[test]
fn the_diff_id_binds_what_the_hmac_does_not() {
    needs_openssl!();
    let archive = Tar::default().bytes();
    for compressed in [archive.clone(), gzip(&archive)] {
        let sealed = Sealed::new(&compressed, &archive);
        sealed.unpack().1.unwrap();
        let mut other_nonce = sealed.clone();
        other_nonce.nonce[15] ^= 1;
        assert!(other_nonce.unpack().1.is_err());
        let mut other_image = sealed.clone();
        other_image.diff_id = digest_of(b"another");
        let result = other_image.unpack().1;
        assert_is!(result, Err(LayerError::DiffId(_)));
    }
}

#[test]
fn the_blob_is_judged_before_its_encryption() {
    needs_openssl!();
    let archive = large();
    let sealed = Sealed::new(&gzip(&archive), &archive);
    let right = sealed.expected();
    let mut changed = sealed.ciphertext.clone();
    changed[5] ^= 1;
    let key = sealed.key();
    let longer = [&sealed.ciphertext[..], b"more"].concat();
    for received in [&changed[..], &sealed.ciphertext[..1000], &longer[..], &[]] {
        let directory = tempfile::tempdir().unwrap();
        let (path, diff_id) = (directory.path(), &sealed.diff_id);
        let result = unpack_into(path, chunks(received), &right, Some(&key), diff_id);
        assert_is!(result, Err(LayerError::Blob(_)));
    }
}

/// It would be a layer of nothing but noise, and is what remains of an image whose media types were
/// changed.
#[test]
fn ciphertext_is_no_plain_layer() {
    needs_openssl!();
    let archive = Tar::default().bytes();
    let sealed = Sealed::new(&archive, &archive);
    let result = unpack_blob(&sealed.ciphertext, &archive).1;
    assert_is!(result, Err(LayerError::Unpack(_)));
}

/// An authentic layer may still be a broken one; then the stages behind the cipher leave early, and
/// nobody is left waiting.
#[test]
fn a_broken_layer_is_told_from_a_forged_one() {
    needs_openssl!();
    let archive = large();
    let mut compressed = gzip(&archive);
    compressed[10] = 0xff;
    let sealed = Sealed::new(&compressed, &archive);
    let result = sealed.unpack().1;
    assert_is!(result, Err(LayerError::Compression(_)));
    let mut no_archive = archive;
    no_archive[0] ^= 1;
    let sealed = Sealed::new(&no_archive, &no_archive);
    let result = sealed.unpack().1;
    assert_is!(result, Err(LayerError::Unpack(_)));
    // Both at once: somebody without the key is to blame.
    let mut forged = sealed;
    let last = forged.ciphertext.len() - 1;
    forged.ciphertext[last] ^= 1;
    assert_eq!(forged.forged(), Forged::Hmac);
}

#[test]
fn decrypting_ends_when_nobody_waits() {
    needs_openssl!();
    let start = limits::large_file();
    let sealed = Sealed::new(&start, &start);
    let directory = tempfile::tempdir().unwrap();
    let root = fs::File::open(directory.path()).unwrap().into();
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let source = limits::Endless::new(&sealed.ciphertext, Some(waiting));
    let (expected, key) = (limits::endless(), sealed.key());
    let result = unpack(source, &expected, Some(&key), &sealed.diff_id, root, &caller);
    assert_is!(result, Err(LayerError::GivenUp));
}

/// What fills the store must be what somebody encrypted, or the room that is missing means nothing.
#[test]
fn privileged_only_an_authentic_layer_tells_that_the_store_is_full() {
    vm_harness::needs_root!();
    needs_openssl!();
    let archive = large();
    let mut sealed = Sealed::new(&archive, &archive);
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let unpack = |sealed: &Sealed| {
        let key = sealed.key();
        limits::unpack_into_little(
            chunks(&sealed.ciphertext),
            &sealed.expected(),
            Some(&key),
            &caller,
        )
    };
    let error = unpack(&sealed);
    assert!(error.is_no_space() && error.is_local(), "{error:?}");
    sealed.ciphertext[4_000_000] ^= 1;
    let error = unpack(&sealed);
    assert!(
        matches!(error, LayerError::Decryption(Forged::Hmac)) && !error.is_local(),
        "{error:?}"
    );
}
