//! A node's surroundings: a registry with a password and a private CA, an image in it, and the
//! document that says so.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::decoy;
use crate::layout::{self, Layout};
use crate::{Evidence, Registry, Scenario, Scratch};
use test_http::pki::Authority;

/// The registry's name in references and in the document. Only the guest's `/etc/hosts` knows it.
pub const REGISTRY_NAME: &str = "registry.corp";

/// Its one user.
pub const USERNAME: &str = "puller";

/// A registry with an image in it.
#[derive(Debug)]
pub struct Site {
    /// Who signed the registry's certificate.
    pub authority: Authority,
    /// The registry.
    pub registry: Registry,
    /// The image in it.
    pub layout: Layout,
    /// The registry's password, made up for this run.
    pub password: String,
    scratch: Scratch,
}

impl Site {
    /// Starts the registry and pushes the sample image to it as `team/app`.
    ///
    /// # Errors
    ///
    /// Where a program is missing or does not start.
    pub fn start(scratch: &Scratch) -> Result<Self> {
        let authority = Authority::new("corp private CA")?;
        let password = invent_password(scratch);
        let registry = Registry::start(scratch, &authority, &[REGISTRY_NAME], USERNAME, &password)?;
        let layout = layout::sample(&scratch.path().join("layout"))?;
        registry.push(scratch, &layout.path, "team/app")?;
        Ok(Self { authority, registry, layout, password, scratch: scratch.clone() })
    }

    /// The image's reference, pinned by digest.
    #[must_use]
    pub fn image(&self) -> String {
        format!("{}@{}", self.repository(), self.layout.manifest)
    }

    /// Registry, port and repository, without tag or digest.
    #[must_use]
    pub fn repository(&self) -> String {
        format!("{REGISTRY_NAME}:{}/team/app", self.registry.port())
    }

    /// The value of `auth` for `password`.
    #[must_use]
    pub fn auth(password: &str) -> String {
        STANDARD.encode(format!("{USERNAME}:{password}"))
    }

    /// The node's document, with the registry's password and CA.
    #[must_use]
    pub fn document(&self) -> String {
        Self::document_with(&self.password, self.authority.certificate())
    }

    /// A document for the registry with another password or CA.
    #[must_use]
    pub fn document_with(password: &str, ca_certs: &str) -> String {
        format!(
            "[registries.\"{REGISTRY_NAME}.\"]\nauth = \"{}\"\nca-certs \
            = \"\"\"\n{ca_certs}\"\"\"\n",
            Self::auth(password)
        )
    }

    /// The directory the site lives in.
    #[must_use]
    pub const fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// A sandbox in which everything is right: SNP evidence that fits the initdata, the node's
    /// document, decoy disks.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let initdata = sample_initdata();
        Scenario {
            id: "3f9c2a7d1b".to_owned(),
            image: self.image(),
            document: Some(self.document()),
            evidence: Evidence::snp(&initdata),
            initdata: Some(initdata),
            disks: decoy::contents(),
            hosts: format!("10.0.2.2 {REGISTRY_NAME}\n"),
            job: None,
            ..Scenario::bare("")
        }
    }
}

/// An initdata document with a policy and a configuration file.
#[must_use]
pub fn sample_initdata() -> String {
    "version = \"0.1.0\"\nalgorithm = \"sha256\"\n\n[data]\n\"aa.toml\" \
    = \"\"\"\n[token_configs]\n\"\"\"\n\
     \"policy.rego\" = \"\"\"\npackage agent_policy\n\ndefault AllowRequestsFailingPolicy := \
     true\n\"\"\"\n"
        .to_owned()
}

/// A password nobody could have written into a test by hand: the scratch directory's random name
/// and this process.
#[must_use]
pub fn invent_password(scratch: &Scratch) -> String {
    let name = scratch.path().file_name().unwrap_or_default();
    format!("s3cret-{}-{}", name.to_string_lossy(), std::process::id())
}
