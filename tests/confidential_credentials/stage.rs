//! The people of the table: an owner with a registry, a broker that has the owner's secrets, and a
//! host that wants them.

use std::path::Path;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use confidential_fixtures::Vault;
use end_to_end::{HostPull, Outcome};
use fault_registry::{Content, FaultRegistry, Http, Image, Layer, Login, Script, Tls};
use serde_json::json;
use test_http::pki::Authority;
use vm_harness::Scratch;
use vm_harness::site::invent_password;

/// The registry's user.
pub const USER: &str = "owner";

/// Where the credentials lie.
pub const CREDENTIALS: &str = "kbs:///default/credential/registry";

/// Where the owner's CA lies.
pub const ROOTS: &str = "kbs:///default/ca/registry";

/// Where something else lies that is nobody's business.
pub const OTHER: &str = "kbs:///default/database/password";

pub struct Stage {
    pub scratch: Scratch,
    /// Who signs the registry's certificate.
    pub owner: Authority,
    /// Who signs what the host likes.
    pub host: Authority,
    pub password: String,
    pub other: String,
    /// The one image, on each registry of this stage.
    pub digest: String,
    content: Content,
}

impl Stage {
    pub fn set() -> Result<Self> {
        let scratch = Scratch::new()?;
        let mut content = Content::default();
        let layers = vec![Layer::gzip(&[("secret", b"for who may pull")])?];
        let digest = Image::new(layers).publish(&mut content);
        let password = invent_password(&scratch);
        Ok(Self {
            owner: Authority::new("the owner's CA")?,
            host: Authority::new("the host's CA")?,
            // A document of a sort, so that a reader gets as far as it can.
            other: format!(
                "{{\"auths\": {{\"db\": \"other-{password}\"}}, \"more\": other-{password}"
            ),
            password,
            digest,
            content,
            scratch,
        })
    }

    /// The owner's registry, for who has the password. It is called `localhost`.
    pub fn registry(&self, script: Script) -> Result<FaultRegistry> {
        let login = Login::basic(USER, &self.password);
        self.serve(script.login(login), Some(&self.owner))
    }

    /// A registry that is the host's: it knows the host's own password, and asks for one.
    pub fn stand_in(&self, authority: Option<&Authority>) -> Result<FaultRegistry> {
        self.serve(Script::new().login(Login::basic("host", "the-hosts")), authority)
    }

    /// A registry with the image, with a certificate for `localhost` or without TLS.
    pub fn serve(&self, script: Script, authority: Option<&Authority>) -> Result<FaultRegistry> {
        let identity = authority.map(|authority| authority.sign(&["localhost"])).transpose()?;
        let tls =
            identity.as_ref().map(|identity| Tls { identity, name: "localhost", http: Http::One });
        FaultRegistry::start(self.content.clone(), script, tls.as_ref())
    }

    /// The owner's registry with the image in a layout.
    pub fn serve_layout(&self, layout: &Path, script: Script) -> Result<FaultRegistry> {
        let tls =
            Tls { identity: &self.owner.sign(&["localhost"])?, name: "localhost", http: Http::One };
        FaultRegistry::start(Content::load(layout)?, script, Some(&tls))
    }

    pub fn auth(&self) -> String {
        STANDARD.encode(format!("{USER}:{}", self.password))
    }

    /// What the broker has, with credentials for this registry.
    pub fn vault(&self, registry: &FaultRegistry) -> Vault {
        let auths = json!({"auths": {name(registry): {"auth": self.auth()}}});
        self.vault_of(&auths.to_string())
    }

    /// What the broker has, with this docker configuration.
    pub fn vault_of(&self, configuration: &str) -> Vault {
        Vault::new()
            .with("default/credential/registry", configuration)
            .with("default/ca/registry", self.owner.certificate())
            .with("default/database/password", &self.other)
    }

    /// A pull with the host's document, in a guest whose broker has this.
    pub fn pull(&self, document: &str, vault: &Vault) -> Result<HostPull> {
        let file = self.scratch.write("vault.json", vault.offline_file())?;
        Ok(HostPull::new(document)?.resources(&format!("file={}", file.display())))
    }

    /// The same, of the image at this registry.
    pub fn attempt(
        &self,
        document: &str,
        vault: &Vault,
        registry: &FaultRegistry,
    ) -> Result<Outcome> {
        self.pull(document, vault)?.run(&self.image(registry))
    }

    /// The image at a registry.
    pub fn image(&self, registry: &FaultRegistry) -> String {
        format!("{}/team/app@{}", name(registry), self.digest)
    }

    /// Everything that must not be seen.
    fn secrets(&self) -> [String; 4] {
        [
            self.password.clone(),
            self.auth(),
            STANDARD.encode(&self.password),
            // Each half of the other secret too: the beginning is no secret.
            format!("other-{}", &self.password[..self.password.len() / 2]),
        ]
    }

    /// Nothing secret was said, and nothing secret or authorised went to `strangers`.
    pub fn assert_kept(&self, outcome: &Outcome, strangers: &[&FaultRegistry]) {
        self.assert_none_in(outcome.said.as_bytes(), "what the program said");
        for stranger in strangers {
            for request in stranger.requests() {
                assert_eq!(request.header("authorization"), None, "{request:?}");
                self.assert_none_in(format!("{request:?}").as_bytes(), "a request");
            }
        }
    }

    /// None of the secrets shows in these bytes.
    pub fn assert_none_in(&self, bytes: &[u8], what: &str) {
        for secret in self.secrets() {
            let secret = secret.as_bytes();
            let shows = bytes.windows(secret.len()).any(|window| window == secret);
            let text = String::from_utf8_lossy(bytes);
            assert!(!shows, "a secret shows in {what}: {text}");
        }
    }

    /// The registry was asked with the password.
    pub fn assert_given(&self, registry: &FaultRegistry) {
        let expected = format!("Basic {}", self.auth());
        let requests = registry.requests();
        let given =
            |request: &fault_registry::Request| request.header("authorization") == Some(&expected);
        assert!(requests.iter().any(given), "{requests:?}");
    }
}

/// The image came.
pub fn assert_pulled(outcome: &Outcome) -> Result<()> {
    let files = outcome.files()?;
    assert_eq!(files.keys().collect::<Vec<_>>(), ["secret"]);
    Ok(())
}

/// A registry's name and port, as references and docker configurations have it.
pub fn name(registry: &FaultRegistry) -> String {
    format!("localhost:{}", registry.address().port())
}

/// The last line of what the program said, which is the refusal without the warnings before.
pub fn last_line(said: &str) -> &str {
    said.trim_end().lines().next_back().unwrap_or_default()
}

/// An entry of a document.
pub fn entry(name: &str, lines: &[&str]) -> String {
    format!("[registries.\"{name}\"]\n{}\n", lines.join("\n"))
}

/// The lines with which an entry names the owner's secrets.
pub fn references() -> [String; 2] {
    [format!("credentials-uri = \"{CREDENTIALS}\""), format!("ca-certs-uri = \"{ROOTS}\"")]
}

/// What the host would write with credentials of its own in the place of the references.
pub const HOSTS_OWN: [&str; 2] = ["username = \"host\"", "password = \"the-hosts\""];

/// A line with roots.
pub fn roots(authority: &Authority) -> String {
    format!("ca-certs = \"\"\"\n{}\"\"\"", authority.certificate())
}
