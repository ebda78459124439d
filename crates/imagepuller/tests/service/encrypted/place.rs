//! A registry, an image to encrypt, and pulls of what was made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use confidential_fixtures::Vault;
use confidential_fixtures::encrypted::{Encrypted, Key, KeyKind, Which, encrypt};
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};

use crate::support::{Site, imagepuller, noise};
use vm_harness::walk::{Seen, walk};

/// A registry, and an image before it is encrypted.
pub struct Place(pub Site);

/// What a pull came to.
pub struct Pulled {
    pub output: Output,
    pub rootfs: PathBuf,
    /// What it kept for who asks in the guest.
    pub reasons: String,
}

impl Place {
    pub fn start() -> Self {
        let lower = Tar::default()
            .directory("etc")
            .file("etc/secret", noise(200_000, 7))
            .file("etc/both", "lower")
            .hard_link("etc/link", "etc/secret");
        let middle = Tar::default().file("etc/both", "middle").file("top", noise(3, 7));
        let upper = Tar::default()
            .file("etc/both", "upper")
            .file(".wh.top", "")
            .symlink("etc/name", "secret");
        let layers = vec![
            (lower.bytes(), Compression::Gzip),
            (middle.bytes(), Compression::Zstd),
            (upper.bytes(), Compression::Gzip),
        ];
        Self(Site::with(|path| layout::of_archives(path, layers).unwrap()))
    }

    pub fn key(&self, name: &str, kind: KeyKind) -> Key {
        Key::generate(&self.0.scratch, name, kind).unwrap()
    }

    pub fn encrypt(&self, name: &str, keys: &[&Key], which: Which) -> Encrypted {
        encrypt(&self.0.scratch, name, &self.0.layout.path, keys, which).unwrap()
    }

    /// Pushes an image, and says how it is asked for.
    pub fn push(&self, image: &Encrypted) -> String {
        let name = image.path.file_name().unwrap().to_str().unwrap();
        let repository = format!("team/{}", name.to_ascii_lowercase());
        let registry = &self.0.registry;
        registry.push(&self.0.scratch, &image.path, &repository).unwrap();
        format!("localhost:{}/{repository}@{}", registry.port(), image.manifest)
    }

    /// The document that lets a pull in, with these decryption keys as they are written in it.
    pub fn document(&self, keys: &[String]) -> String {
        let mut document = self.0.document("localhost");
        if !keys.is_empty() {
            document.push_str(&format!("[decryption-keys]\nkeys = {keys:?}\n"));
        }
        document
    }

    /// Pulls to a directory, which must begin empty.
    pub fn pull(&self, image: &str, document: &str, more: &[&str]) -> Pulled {
        let directory = tempfile::tempdir_in(self.0.scratch.path()).unwrap().keep();
        let config = directory.join("imagepuller.toml");
        fs::write(&config, document).unwrap();
        let output = imagepuller(["pull", "--json", "--config"])
            .arg(config)
            .arg("--reasons")
            .arg(directory.join("reasons"))
            .arg("--output")
            .arg(directory.join("out"))
            .args(more)
            .arg(image)
            .output()
            .unwrap();
        Pulled {
            output,
            rootfs: directory.join("out/rootfs"),
            reasons: fs::read_to_string(directory.join("reasons")).unwrap_or_default(),
        }
    }

    /// The same, with what a vault has to be fetched from it.
    pub fn pull_with(&self, image: &str, document: &str, vault: &Vault) -> Pulled {
        let resources = self.0.scratch.path().join("resources.json");
        fs::write(&resources, vault.offline_file()).unwrap();
        let measured = self.0.scratch.path().join("measured.toml");
        let text = format!("[resources]\nsource = \"file={}\"\n", resources.display());
        fs::write(&measured, text).unwrap();
        self.pull(image, document, &["--measured", measured.to_str().unwrap()])
    }

    /// Pushes the image without encryption.
    pub fn push_plain(&self) -> String {
        self.push(&Encrypted::open(self.0.layout.path.clone()).unwrap())
    }

    /// What the image is without encryption.
    pub fn expected(&self) -> BTreeMap<String, Seen> {
        let image = self.push_plain();
        self.pull(&image, &self.document(&[]), &[]).files()
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
        let events =
            events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events
            .filter(|event| event["event"] == "unlocked")
            .map(|event| event["how"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The message, where nothing may come out.
    pub fn refusal(&self, code: i32) -> String {
        let message = String::from_utf8_lossy(&self.output.stderr).into_owned();
        assert_eq!(self.output.status.code(), Some(code), "{message}");
        assert!(!self.rootfs.parent().unwrap().exists(), "something was left: {message}");
        let last = message.lines().last().unwrap_or_default().to_owned();
        assert!(!last.is_empty());
        last
    }
}

/// A key as the document has it.
pub fn written(key: &[u8]) -> String {
    BASE64_STANDARD.encode(key)
}
