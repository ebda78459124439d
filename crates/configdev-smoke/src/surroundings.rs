//! What surrounds the guest: a registry, the documents, and the disk of initdata.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use config_image::Magic;
use fault_registry::{Content, FaultRegistry, Http, Image, Layer, Login, Script, Tls};
use test_http::pki::Authority;
use vm_harness::Scratch;

use crate::options::{Expect, Options};
use crate::relay;

/// Its one account.
const USERNAME: &str = "smoke";

/// What the policy of the initdata made here begins with.
pub const POLICY_MARK: &str = "# policy of configdev-smoke's initdata";

/// The largest document that is read.
const MAX_DOCUMENT_BYTES: u64 = 4 << 20;

/// Everything outside of the guest.
#[derive(Debug)]
pub struct Surroundings {
    /// The image to pull; none: nothing is pulled.
    pub image: Option<String>,
    /// Its digest, where it is known.
    pub digest: Option<String>,
    /// The node's document; none: the wrapper attaches no disk.
    pub document: Option<PathBuf>,
    /// The image of the initdata disk; none: no disk.
    pub initdata: Option<PathBuf>,
    /// Whether the initdata is the one made here.
    pub own_initdata: bool,
    /// The registry in this program.
    pub registry: Option<FaultRegistry>,
    /// What must show nowhere.
    pub secret: Option<String>,
}

impl Surroundings {
    /// Starts the registry and writes what the disks are made of into `scratch`.
    ///
    /// # Errors
    ///
    /// Where a file that was named cannot be read, or the registry cannot be started.
    pub fn prepare(options: &Options, scratch: &Scratch) -> Result<Self> {
        let own = match own_registry(options) {
            true => Some(Own::start(options.expect)?),
            false => None,
        };
        let (initdata, own_initdata) = initdata(options, own.as_ref(), scratch)?;
        let document = match (&options.document, &own) {
            (Some(path), _) => Some(scratch.write("document.toml", read(path)?)?),
            (None, Some(own)) if options.expect != Expect::Anonymous => {
                Some(scratch.write("document.toml", own.document())?)
            }
            _ => None,
        };
        Ok(Self {
            image: options.pull.clone().or(own.as_ref().map(Own::image)),
            digest: own.as_ref().map(|own| own.digest.clone()),
            document,
            initdata,
            own_initdata,
            secret: own.as_ref().map(|own| own.password.clone()),
            registry: own.map(|own| own.registry),
        })
    }

    /// The port of the registry in this program.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let registry = self.registry.as_ref();
        registry.map(|registry| registry.address().port())
    }
}

/// Whether the registry here is of use: a document or initdata of the caller's says nothing of it.
fn own_registry(options: &Options) -> bool {
    let says_nothing = match options.expect {
        Expect::Anonymous => options.initdata.is_some(),
        Expect::Ready | Expect::Refused => options.document.is_some(),
    };
    options.pull.is_none() && !says_nothing
}

/// The registry in this program, and what only it knows.
struct Own {
    registry: FaultRegistry,
    authority: Authority,
    password: String,
    digest: String,
    has_login: bool,
}

impl Own {
    fn start(expect: Expect) -> Result<Self> {
        let authority = Authority::new("configdev-smoke private CA")?;
        let identity = authority.sign(&[relay::ADDRESS])?;
        let password = invent_password()?;
        let mut content = Content::default();
        let layer = Layer::gzip(&[
            ("motd", b"pulled inside the guest\n"),
            ("smoke", b"by configdev-smoke\n"),
        ])?;
        let digest = Image::new(vec![layer]).publish(&mut content);
        let has_login = expect != Expect::Anonymous;
        let script = match has_login {
            true => Script::new().login(Login::basic(USERNAME, &password)),
            false => Script::new(),
        };
        let tls = Tls { identity: &identity, name: relay::ADDRESS, http: Http::One };
        let registry = FaultRegistry::start(content, script, Some(&tls))?;
        Ok(Self { registry, authority, password, digest, has_login })
    }

    fn name() -> String {
        format!("{}:{}", relay::ADDRESS, relay::PORT)
    }

    fn image(&self) -> String {
        format!("{}/smoke/image@{}", Self::name(), self.digest)
    }

    /// An entry with the CA, and with the account where the registry wants one.
    fn document(&self) -> String {
        let mut text = format!("[registries.\"{}\"]\n", Self::name());
        if self.has_login {
            let _ = write!(text, "username = \"{USERNAME}\"\npassword = \"{}\"\n", self.password);
        }
        let _ = write!(text, "ca-certs = \"\"\"\n{}\"\"\"\n", self.authority.certificate());
        text
    }
}

/// The disk's image, and whether the document is ours.
fn initdata(
    options: &Options,
    own: Option<&Own>,
    scratch: &Scratch,
) -> Result<(Option<PathBuf>, bool)> {
    let (document, is_own) = match &options.initdata {
        Some(_) if options.is_without_initdata() => return Ok((None, false)),
        Some(path) => (read(path)?, false),
        None => {
            // Without a document of the node's only the measured one can say whom to trust.
            let measured = own.filter(|_| options.expect == Expect::Anonymous);
            (sample(measured.map(Own::document)).into_bytes(), true)
        }
    };
    let image = config_image::encode(Magic::INITDATA, &document)?;
    Ok((Some(scratch.write("initdata.img", image)?), is_own))
}

/// An initdata document with a policy that allows everything, and the puller's measured document.
fn sample(measured: Option<String>) -> String {
    let mut text = format!(
        "version = \"0.1.0\"\nalgorithm = \"sha256\"\n\n[data]\n\"policy.rego\" = '''\n\
         {POLICY_MARK}\npackage agent_policy\n\ndefault AllowRequestsFailingPolicy := true\n'''\n"
    );
    if let Some(measured) = measured {
        let _ = write!(text, "\"imagepuller.toml\" = '''\n{measured}'''\n");
    }
    text
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_DOCUMENT_BYTES).read_to_end(&mut bytes))
        .with_context(|| format!("failed to read {}", path.display()))?;
    Ok(bytes)
}

fn invent_password() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(foreign_text::hex::encode(&bytes))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_documents_made_here_are_documents() {
        for expect in [Expect::Ready, Expect::Anonymous] {
            let own = Own::start(expect).unwrap();
            let document = own.document();
            assert_eq!(document.contains("password"), expect == Expect::Ready);
            let parsed = puller_config::Document::parse(document.as_bytes());
            assert!(parsed.is_ok(), "{:?}", parsed.err());
        }
    }

    #[test]
    fn each_state_has_its_disks() {
        let base = ["x", "--kernel", "k", "--initrd", "i"];
        for (more, document, initdata, image) in [
            (&[][..], true, true, true),
            (&["--expect", "anonymous"], false, true, true),
            (&["--expect", "refused"], true, true, true),
            (&["--initdata", "none"], true, false, true),
            (&["--pull", "registry.test/a"], false, true, true),
        ] {
            let options = Options::parse_from(base.iter().chain(more));
            let scratch = Scratch::new().unwrap();
            let made = Surroundings::prepare(&options, &scratch).unwrap();
            assert_eq!(made.document.is_some(), document, "{more:?}");
            assert_eq!(made.initdata.is_some(), initdata, "{more:?}");
            assert_eq!(made.image.is_some(), image, "{more:?}");
            assert_eq!(made.port().is_some(), options.pull.is_none());
        }
    }
}
