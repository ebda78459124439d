//! What surrounds the guest: a registry, the documents, and the disk of initdata.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, stdin, stdout};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow};
use config_image::Magic;
use fault_registry::{Content, FaultRegistry, Http, Image, Layer, Login, Script, Tls};
use foreign_text::bounded::read_path;
use registry_config::{Credentials, Document, Registry, RegistryName, Roots};
use test_http::pki::Authority;
use vm_harness::Scratch;

use crate::command::failed_to_read;
use crate::options::{Expect, Options};

/// The word that makes this program a relay from QEMU's network to the registry: QEMU starts it for
/// each connection of the guest to the one address that is open to it (`guestfwd=...-cmd:`).
pub const RELAY: &str = "relay";

/// Where the guest finds the registry.
pub const ADDRESS: &str = "10.0.2.100";

/// The port there.
pub const PORT: u16 = 5000;

/// Its one account.
const USERNAME: &str = "smoke";

/// What the policy of the initdata made here begins with.
pub const POLICY_MARK: &str = "# policy of configdev-smoke's initdata";

/// The largest document that is read.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// Everything outside of the guest.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// The image to pull; none: nothing is pulled.
    pub image: Option<String>,
    /// Its digest, where it is known.
    pub digest: Option<String>,
    /// The node's document; none: the wrapper attaches no disk.
    pub document: Option<PathBuf>,
    /// The image of the initdata disk; none: no disk.
    pub initdata: Option<PathBuf>,
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
        let is_anonymous = options.expect == Expect::Anonymous;
        let mut made = Self { image: options.pull.clone(), ..Self::default() };
        // A document or initdata of the caller's says nothing of the registry here.
        let callers = if is_anonymous { &options.initdata } else { &options.document };
        let own = match options.pull.is_none() && callers.is_none() {
            true => Some(made.start_registry(!is_anonymous)?),
            false => None,
        };
        // Without a document of the node's only the measured one can say whom to trust.
        let (measured, own) = if is_anonymous { (own, None) } else { (None, own) };
        let document = match &options.document {
            Some(path) => Some(read(path)?),
            None => own.map(String::into_bytes),
        };
        if let Some(document) = document {
            made.document = Some(scratch.write("document.toml", document)?);
        }
        let initdata = match &options.initdata {
            Some(_) if options.is_without_initdata() => return Ok(made),
            Some(path) => read(path)?,
            None => sample(measured).into_bytes(),
        };
        let image = config_image::encode(Magic::INITDATA, &initdata)?;
        made.initdata = Some(scratch.write("initdata.img", image)?);
        Ok(made)
    }

    /// Starts a registry with one image and a CA of its own. Returns the document that it wants: an
    /// entry with the CA, and with the account where it `has_login`.
    fn start_registry(&mut self, has_login: bool) -> Result<String> {
        let authority = Authority::new("configdev-smoke private CA")?;
        let identity = authority.sign(&[ADDRESS])?;
        let password = invent_password()?;
        let mut content = Content::default();
        let layer = Layer::gzip(&[
            ("motd", b"pulled inside the guest\n"),
            ("smoke", b"by configdev-smoke\n"),
        ])?;
        let digest = Image::new(vec![layer]).publish(&mut content);
        let name = format!("{ADDRESS}:{PORT}");
        let mut registry = Registry::default();
        let mut script = Script::new();
        if has_login {
            script = script.login(Login::basic(USERNAME, &password));
            let (username, password) = (USERNAME.to_owned(), password.clone().into());
            registry.credentials = Credentials::Basic { username, password };
        }
        let roots = Roots::parse(authority.certificate());
        registry.ca_certs = Some(roots.map_err(|rules| anyhow!("its own CA: {rules:?}"))?);
        let mut document = Document::default();
        document.registries.set(RegistryName::parse(&name)?, registry);
        let document = document.to_toml()?.to_string();
        let tls = Tls { identity: &identity, name: ADDRESS, http: Http::One };
        self.registry = Some(FaultRegistry::start(content, script, Some(&tls))?);
        self.image = Some(format!("{name}/smoke/image@{digest}"));
        (self.digest, self.secret) = (Some(digest), Some(password));
        Ok(document)
    }

    /// The port of the registry in this program.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let registry = self.registry.as_ref();
        registry.map(|registry| registry.address().port())
    }
}

/// Copies between standard input and output and this port of 127.0.0.1, until either side ends.
///
/// # Errors
///
/// Those of the connection.
pub fn relay(port: u16) -> io::Result<()> {
    let registry = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let (mut to, mut from) = (registry.try_clone()?, registry.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut stdin().lock(), &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    // Not Rust's standard output, which waits for the end of a line.
    let mut output = File::from(stdout().as_fd().try_clone_to_owned()?);
    io::copy(&mut from, &mut output)?;
    Ok(())
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
    let read = read_path(path, MAX_DOCUMENT_BYTES).with_context(|| failed_to_read(path));
    Ok(read?.to_vec())
}

fn invent_password() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(foreign_text::hex::encode(&bytes))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_documents_made_here_are_documents() {
        for has_login in [true, false] {
            let document = Surroundings::default().start_registry(has_login).unwrap();
            assert_eq!(document.contains("password"), has_login);
            let parsed = registry_config::Document::parse(document.as_bytes());
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
