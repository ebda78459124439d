//! Images of the site, encrypted by `skopeo`, in the site's registry.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use confidential_fixtures::encrypted::{Encrypted, Key, KeyKind, Which, encrypt};
use end_to_end::further_pulls;
use vm_harness::site::REGISTRY_NAME;
use vm_harness::{Report, Scenario, Site, demo};

/// The password of the one key that has one.
pub const KEY_PASSWORD: &str = "a password: with colons, and commas";

/// A site with keys of each kind.
pub struct Locked {
    pub site: Site,
    pub keys: [Key; 4],
}

impl Locked {
    pub fn start() -> Result<Self> {
        let site = end_to_end::site()?;
        let [rsa, p256, p384, p521] = KeyKind::ALL
            .map(|kind| Key::generate(site.scratch(), &format!("image-{kind:?}"), kind));
        Ok(Self { keys: [rsa?, p256?, p384?, p521?], site })
    }

    pub fn key(&self, kind: KeyKind) -> &Key {
        let found = self.keys.iter().find(|key| key.kind == kind);
        found.expect("there is one of each kind")
    }

    /// The site's image, encrypted for these keys.
    pub fn encrypt(&self, name: &str, keys: &[&Key], which: Which) -> Result<Encrypted> {
        let plain = &self.site.layout.path;
        encrypt(self.site.scratch(), name, plain, keys, which)
    }

    /// Pushes an image as `team/NAME` and gives its reference.
    pub fn push(&self, name: &str, image: &Encrypted) -> Result<String> {
        let repository = format!("team/{name}");
        let registry = &self.site.registry;
        registry.push(self.site.scratch(), &image.path, &repository)?;
        Ok(format!("{REGISTRY_NAME}:{}/{repository}@{}", registry.port(), image.manifest))
    }

    /// The node's document with `[decryption-keys]`.
    pub fn document(&self, items: &[String]) -> String {
        format!("{}\n[decryption-keys]\nkeys = {items:?}\n", self.site.document())
    }

    /// A sandbox that pulls `image`, and then each of `more` with a document put in place first,
    /// where there is one.
    pub fn scenario(
        &self,
        document: String,
        image: &str,
        more: &[(Option<&str>, &str)],
    ) -> Scenario {
        Scenario {
            image: image.to_owned(),
            document: Some(document),
            files: further_pulls(more),
            ..self.site.scenario()
        }
    }

    /// The first image of a guest is the plain one, file by file, and nothing secret is on the
    /// console.
    pub fn assert_first(&self, report: &Report) -> Result<()> {
        assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
        assert_eq!(demo::files(report)?, self.site.layout.files);
        assert_eq!(report.value("run"), Some("pulled inside the guest"));
        self.assert_no_secret(&report.console)
    }

    /// One of the further images is the plain one, file by file.
    pub fn assert_more(&self, report: &Report, number: usize) -> Result<()> {
        let mark = |name: &str| format!("{name}{number}");
        assert_eq!(
            report.value(&mark("pull")),
            Some("exit 0"),
            "image {number}: {}",
            report.console
        );
        assert_eq!(
            demo::files_of(report, &mark("file"))?,
            self.site.layout.files,
            "image {number}"
        );
        Ok(())
    }

    /// No password and no line of a private key shows.
    pub fn assert_no_secret(&self, text: &str) -> Result<()> {
        end_to_end::assert_no_secret(&self.site, text);
        assert!(!text.contains(KEY_PASSWORD));
        for key in &self.keys {
            let pem = key.pem()?;
            let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with('-')).collect();
            let line = lines.get(1).context("a key of several lines")?;
            assert!(!text.contains(line), "a key shows");
            assert!(!text.contains(&item(pem.as_bytes())[..60]), "a key shows");
        }
        Ok(())
    }
}

/// A key as `[decryption-keys]` has it.
pub fn item(key: &[u8]) -> String {
    STANDARD.encode(key)
}

/// A key with a password.
pub fn item_with(key: &[u8], password: &str) -> String {
    format!("{}:{}", STANDARD.encode(key), STANDARD.encode(password))
}
