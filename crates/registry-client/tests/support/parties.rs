//! The owner of a secret and the host that wants it, and a pull between them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use docker_config::DockerConfig;
use oci_image::reference::ImageReference;
use pull_route::Route;
use registry_client::Documents;
use registry_client::Error;
use registry_client::registry::Registry;
use registry_config::Roots;
use test_http::pki::Authority;

use super::{PASSWORD, digest, once, run};
use test_http::Server;

/// Who the puller is to the registry, as it is planted.
const USER: &str = "planted-user";

const BY_REFERENCE: &str = "credentials-uri = \"kbs:///default/credential/registry\"\n";
pub const CAS_BY_REFERENCE: &str = "ca-certs-uri = \"kbs:///default/ca/registry\"\n";

/// The owner's authority, which is fetched by reference, and the host's.
pub struct Parties {
    pub owner: Authority,
    pub host: Authority,
    /// What the registry is called.
    pub name: &'static str,
}

impl Parties {
    pub fn new() -> Self {
        Self {
            owner: Authority::new("owner").unwrap(),
            host: Authority::new("host").unwrap(),
            name: "localhost",
        }
    }

    /// An entry of the host that trusts the host.
    pub fn trusting(&self, port: u16, keys: &str) -> String {
        let ca = self.host.certificate();
        format!(
            "[registries.\"localhost:{port}\"]\n{keys}ca-certs = \"\"\"\n{ca}\"\"\"\nusername \
            = \"thief\"\npassword = \"x\"\n"
        )
    }

    /// The reference, in a document of the owner or of the host, and the host's own words behind
    /// it.
    pub fn by_either(&self, port: u16, keys: &str, host: &str) -> [[String; 2]; 2] {
        let name = self.name;
        let entry = format!("[registries.\"{name}:{port}\"]\n{BY_REFERENCE}{keys}");
        [[entry.clone(), host.to_owned()], [String::new(), format!("{host}{entry}")]]
    }

    /// Pulls from the registry at a port with credentials that were fetched for it.
    pub fn pull(&self, [measured, configuration]: [&str; 2], port: u16) -> Result<(), Error> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let documents = Documents {
            configuration: write("imagepuller.toml", configuration),
            measured: Some(write("measured.toml", measured)),
            any_address: true,
            ..Documents::default()
        };
        let settings = documents.load()?;
        let name = self.name;
        let image = format!("{name}:{port}/team/app@{}", digest());
        let image = ImageReference::parse(&image).unwrap();
        let plan = settings.plan(image.registry(), image.repository())?;
        assert!(plan.credentials_uri().is_some());
        let pair = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let json = format!("{{\"auths\":{{\"{name}:{port}\":{{\"auth\":\"{pair}\"}}}}}}");
        let fetched = DockerConfig::parse(json.as_bytes()).unwrap();
        let roots = plan.ca_certs_uri().map(|_| self.owner.certificate());
        let roots = roots.map(|text| Roots::parse(text).unwrap());
        let repository = image.repository();
        let Route { settings, sources } = plan.fill(Some(&fetched), roots)?;
        run(async {
            assert_eq!(sources.len(), 1);
            for source in sources {
                let registry = Registry::new(source, repository, &settings, &once());
                let received = registry.manifest(&digest()).await?;
                assert!(received.verify(&digest(), None).is_ok());
            }
            Ok(())
        })
    }
}

pub fn each([measured, configuration]: &[String; 2]) -> [&str; 2] {
    [measured, configuration]
}

/// Nothing that was planted, in any spelling in which it is sent, and no header that would carry
/// it.
pub fn assert_innocent(seen: &str) {
    let pair = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
    for planted in [USER, PASSWORD, pair.trim_end_matches('=')] {
        assert!(!seen.contains(planted), "{planted}: {seen}");
    }
    assert!(!seen.contains(&PASSWORD.replace(' ', "+")), "{seen}");
    let seen = seen.to_ascii_lowercase();
    assert!(!seen.contains("\nauthorization:"), "{seen}");
}

/// Nobody got through the handshake: no request, or a handshake where none was expected.
pub fn assert_unasked(server: &Server) {
    let requests = server.requests();
    assert!(requests.iter().all(|request| &**request == "TLS"), "{requests:?}");
}
