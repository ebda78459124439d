//! A pull's way of asking, for servers that each test makes up.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

pub mod parties;

use std::io::Write as _;
use std::time::Duration;

use oci_image::digest::Digest;
use oci_image::reference::ImageReference;
use pull_route::Route;
use registry_client::Documents;
use registry_client::registry::Registry;
use registry_client::{Error, Patience};
use test_http::{Request, Server, head, ok};

pub const USER: &str = "puller";
pub const PASSWORD: &str = "correct horse";
pub const CONTENT: &str = "what the digest names";

/// Waits for little, and asks five times.
pub fn hasty() -> Patience {
    Patience {
        attempts: Some(5),
        budget: Duration::from_secs(90),
        first_delay: Duration::from_millis(1),
        largest_delay: Duration::from_millis(5),
        connect: Duration::from_secs(20),
        ..Patience::default()
    }
}

/// As [`hasty`], and does not wait long for who says nothing: a busy machine must not be taken for
/// such a one, so tests that count requests want it only where silence is what they are about.
pub fn impatient() -> Patience {
    Patience {
        connect: Duration::from_secs(1),
        silence: Duration::from_secs(1),
        stall: Duration::from_secs(1),
        ..hasty()
    }
}

/// Waits for nothing and asks once: for tests of something else.
pub fn once() -> Patience {
    Patience { attempts: Some(1), ..Patience::default() }
}

pub fn digest() -> Digest {
    let zero = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
    let mut hasher = zero.hasher();
    hasher.update(CONTENT.as_bytes());
    hasher.finish()
}

/// The first source of `HOST/team/app` under a document.
pub fn open(document: &str, host: &str, patience: &Patience) -> Result<Registry, Error> {
    open_named(document, host, "team/app", patience)
}

/// The same for any repository.
pub fn open_named(
    document: &str,
    host: &str,
    repository: &str,
    patience: &Patience,
) -> Result<Registry, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(document.as_bytes()).unwrap();
    let image = ImageReference::parse(&format!("{host}/{repository}@{}", digest())).unwrap();
    let documents = Documents { any_address: true, ..Documents::of(file.path()) };
    let settings = documents.load()?;
    let plan = settings.plan(image.registry(), image.repository())?;
    let Route { settings, mut sources } = plan.fill(None, None)?;
    let source = sources.remove(0);
    Ok(Registry::new(source, image.repository(), &settings, patience))
}

pub fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Fetches a manifest from `localhost:PORT` under a document.
pub fn fetch(document: &str, port: u16, patience: &Patience) -> Result<Vec<u8>, Error> {
    run(async {
        let registry = open(document, &format!("localhost:{port}"), patience)?;
        let received = registry.manifest(&digest()).await?;
        let verified = received.verify(&digest(), None);
        Ok(verified.expect("the server sends the right content"))
    })
}

/// Fetches a blob of that size in pieces; what came before an error is lost.
pub fn blob(document: &str, port: u16, size: u64, patience: &Patience) -> Result<String, Error> {
    run(async {
        let registry = open(document, &format!("localhost:{port}"), patience)?;
        let mut blob = registry.blob(&digest(), size).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = blob.next().await? {
            assert!(!chunk.is_empty());
            bytes.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8(bytes).unwrap())
    })
}

/// The whole of an error, on one line and without a secret.
pub fn text(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains(PASSWORD) && !text.contains('\n'), "{text}");
    text
}

pub fn entry(name: &str, user: &str, password: &str, ca_certs: &str) -> String {
    format!(
        "[registries.\"{name}\"]\nusername = \"{user}\"\npassword = \"{password}\"\nca-certs \
        = \"\"\"\n{ca_certs}\"\"\"\n"
    )
}

/// The document for a registry that speaks no TLS.
pub fn plain(port: u16) -> String {
    format!("[registries.\"localhost:{port}\"]\nplain-http = true\n")
}

/// Answers with the content to who comes with the password, and with a Basic challenge to others.
pub fn guarded(request: &Request) -> String {
    let sent = request.header("authorization").unwrap_or_default();
    if sent.to_ascii_lowercase().starts_with("basic ") {
        return ok(CONTENT);
    }
    head("401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n")
}

pub fn has_credentials(server: &Server) -> bool {
    let requests = server.requests();
    requests.iter().any(|request| request.header("authorization").is_some())
}
