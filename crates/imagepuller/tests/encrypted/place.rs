//! A registry, an image to encrypt, and pulls of what was made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use confidential_fixtures::encrypted::{Encrypted, Key, KeyKind, Which, encrypt};
use test_http::pki::Authority;
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};
use vm_harness::{Registry, Scratch};

use crate::support::{PASSWORD, USER, entry};
use crate::walk::{Seen, walk};

/// Everything that the tests of this file share.
pub struct Place {
    pub scratch: Scratch,
    pub registry: Registry,
    pub authority: Authority,
    /// The image as it is before it is encrypted.
    pub plain: PathBuf,
}

/// What a pull came to.
pub struct Pulled {
    pub output: Output,
    pub rootfs: PathBuf,
}

impl Place {
    pub fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::new("encrypted").unwrap();
        let registry =
            Registry::start(&scratch, &authority, &["localhost"], USER, PASSWORD).unwrap();
        let lower = Tar::default()
            .directory("etc")
            .file("etc/secret", noise(200_000))
            .file("etc/both", "lower")
            .hard_link("etc/link", "etc/secret");
        let middle = Tar::default()
            .file("etc/both", "middle")
            .file("top", noise(3));
        let upper = Tar::default()
            .file("etc/both", "upper")
            .file(".wh.top", "")
            .symlink("etc/name", "secret");
        let layers = vec![
            (lower.bytes(), Compression::Gzip),
            (middle.bytes(), Compression::Zstd),
            (upper.bytes(), Compression::Gzip),
        ];
        let plain = layout::of_archives(&scratch.path().join("plain"), layers)
            .unwrap()
            .path;
        Self {
            scratch,
            registry,
            authority,
            plain,
        }
    }

    pub fn key(&self, name: &str, kind: KeyKind) -> Key {
        Key::generate(&self.scratch, name, kind).unwrap()
    }

    pub fn encrypt(&self, name: &str, keys: &[&Key], which: Which) -> Encrypted {
        encrypt(&self.scratch, name, &self.plain, keys, which).unwrap()
    }

    /// Pushes an image, and says how it is asked for.
    pub fn push(&self, image: &Encrypted) -> String {
        let name = image.path.file_name().unwrap().to_str().unwrap();
        let repository = format!("team/{}", name.to_ascii_lowercase());
        self.registry
            .push(&self.scratch, &image.path, &repository)
            .unwrap();
        format!(
            "localhost:{}/{repository}@{}",
            self.registry.port(),
            image.manifest
        )
    }

    /// The document that lets a pull in, with these decryption keys as they are written in it.
    pub fn document(&self, keys: &[String]) -> String {
        let mut document = entry("localhost", USER, PASSWORD, self.authority.certificate());
        if !keys.is_empty() {
            document.push_str(&format!("[decryption-keys]\nkeys = {keys:?}\n"));
        }
        document
    }

    /// Pulls to a directory, which must begin empty.
    pub fn pull(&self, image: &str, document: &str, more: &[&str]) -> Pulled {
        let directory = tempfile::tempdir_in(self.scratch.path()).unwrap().keep();
        let config = directory.join("imagepuller.toml");
        fs::write(&config, document).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_imagepuller"))
            .args(["pull", "--json", "--config"])
            .arg(config)
            .arg("--output")
            .arg(directory.join("out"))
            .args(more)
            .arg(image)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Pulled {
            output,
            rootfs: directory.join("out/rootfs"),
        }
    }

    /// What the image is without encryption.
    pub fn expected(&self) -> BTreeMap<String, Seen> {
        let plain = Encrypted::open(self.plain.clone()).unwrap();
        let pulled = self.pull(&self.push(&plain), &self.document(&[]), &[]);
        pulled.files()
    }
}

impl Pulled {
    /// What came out, where it had to.
    pub fn files(&self) -> BTreeMap<String, Seen> {
        assert!(
            self.output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&self.output.stderr),
            String::from_utf8_lossy(&self.output.stdout)
        );
        let files = walk(&self.rootfs);
        assert!(files.len() > 5, "{files:?}");
        files
    }

    /// How each layer was unlocked, in the order of the events.
    pub fn unlocked(&self) -> Vec<String> {
        let events = String::from_utf8_lossy(&self.output.stdout);
        let events = events
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events
            .filter(|event| event["event"] == "unlocked")
            .map(|event| event["how"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The message, where nothing may come out.
    pub fn refusal(&self, code: i32) -> String {
        let message = String::from_utf8_lossy(&self.output.stderr).into_owned();
        assert_eq!(self.output.status.code(), Some(code), "{message}");
        assert!(
            !self.rootfs.parent().unwrap().exists(),
            "something was left: {message}"
        );
        let last = message.lines().last().unwrap_or_default().to_owned();
        assert!(!last.is_empty());
        last
    }
}

/// A key as the document has it.
pub fn written(key: &[u8]) -> String {
    BASE64_STANDARD.encode(key)
}

/// A directory beside others.
pub fn below(scratch: &Scratch, name: &str) -> PathBuf {
    Path::new(scratch.path()).join(name)
}

/// Bytes that do not get shorter by compression.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}
