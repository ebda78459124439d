//! The rows that run in a guest: what the owner wants, and what the host makes of it.

use anyhow::Result;
use confidential_fixtures::Vault;
use end_to_end::{HUB, assert_no_secret, assert_tells, hub_of, refusal, run};
use fault_registry::{Content, FaultRegistry, Http, Login, Script, Tls};
use serde_json::json;
use test_http::Tunnel;
use test_http::pki::Authority;
use vm_harness::site::{REGISTRY_NAME, sample_initdata};
use vm_harness::{Evidence, Program, Report, Scenario, Site, demo};

/// A site whose password only a CDH has, and guests that are told of the CDH by measured initdata.
struct Confided {
    site: Site,
    vault: Vault,
}

impl Confided {
    fn start() -> Result<Self> {
        let site = end_to_end::site()?;
        let name = format!("{REGISTRY_NAME}:{}", site.registry.port());
        let auths = json!({"auths": {name: {"auth": Site::auth(&site.password)}}});
        let vault = Vault::new()
            .with("default/credential/registry", auths.to_string())
            .with("default/ca/registry", site.authority.certificate());
        Ok(Self { site, vault })
    }

    fn scenario(&self, document: String) -> Scenario {
        let initdata = format!(
            "{}\"imagepuller.toml\" = '''\n[resources]\nsource = \"cdh=unix:{HUB}\"\n'''\n",
            sample_initdata(),
        );
        let mut scenario = self.site.scenario();
        scenario.programs.push(Program::GuestResources);
        scenario.files.extend(hub_of(self.vault.offline_file()));
        Scenario {
            document: Some(document),
            evidence: Evidence::snp(&initdata),
            initdata: Some(initdata),
            ..scenario
        }
    }

    fn assert_pulled(&self, report: &Report) -> Result<()> {
        assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
        assert_eq!(demo::files(report)?, self.site.layout.files);
        assert_no_secret(&self.site, &report.console);
        Ok(())
    }
}

/// The host's entry for the registry: two names, no secret.
const ENTRY: &str = "[registries.\"registry.corp.\"]\n\
    credentials-uri = \"kbs:///default/credential/registry\"\n\
    ca-certs-uri = \"kbs:///default/ca/registry\"\n";

#[test]
fn the_owner_gives_a_guest_its_credentials_and_no_host_sees_them() -> Result<()> {
    let confided = Confided::start()?;
    let tunnel = Tunnel::start()?;
    let document =
        format!("{ENTRY}\n[extra-env]\nHTTPS_PROXY = \"http://10.0.2.2:{}\"\n", tunnel.port);
    let report = run(&confided.scenario(document))?;
    confided.assert_pulled(&report)?;
    for asked in ["default/ca/registry", "default/credential/registry"] {
        assert_tells(&report.console, &[&format!("asked for kbs:///{asked}")]);
    }
    // All of the registry's traffic goes through the host's proxy, which sees names and TLS.
    let registry = format!("{REGISTRY_NAME}:{}", confided.site.registry.port());
    let targets = tunnel.targets();
    assert!(!targets.is_empty() && targets.iter().all(|target| *target == registry), "{targets:?}");
    let bytes = tunnel.bytes();
    for secret in [&confided.site.password, &Site::auth(&confided.site.password)] {
        let shows = |window: &[u8]| window == secret.as_bytes();
        assert!(!bytes.windows(secret.len()).any(shows), "the proxy sees a secret");
    }
    let head = b"Authorization: Basic";
    let shows = |window: &[u8]| window.eq_ignore_ascii_case(head);
    assert!(!bytes.windows(head.len()).any(shows), "the proxy sees a request");
    Ok(())
}

#[test]
fn a_host_that_stands_in_for_the_registry_gets_nothing() -> Result<()> {
    let confided = Confided::start()?;
    let host = Authority::new("the host's CA")?;
    let tls = Tls { identity: &host.sign(&[REGISTRY_NAME])?, name: REGISTRY_NAME, http: Http::One };
    let content = Content::load(&confided.site.layout.path)?;
    let script = Script::new().login(Login::basic("nobody", "nothing"));
    let stand_in = FaultRegistry::start(content, script, Some(&tls))?;
    // The host's certificate authority, no verification, and a mirror: all three say that the host
    // may answer.
    let mirror = format!("https://{REGISTRY_NAME}:{}", stand_in.address().port());
    let document = format!(
        "{ENTRY}insecure-skip-verify = true\nmirror = \"{mirror}\"\n\n[registries.\".\"]\nca-certs \
        = \"\"\"\n{}\"\"\"\n",
        host.certificate()
    );
    let report = run(&confided.scenario(document.clone()))?;
    confided.assert_pulled(&report)?;
    assert_eq!(stand_in.connections(), 0, "the mirror was asked");

    // And under another name than the owner's, which the host may choose for an image.
    let image = format!(
        "{REGISTRY_NAME}:{}/team/app@{}",
        stand_in.address().port(),
        confided.site.layout.manifest
    );
    let report = run(&Scenario { image, ..confided.scenario(document) })?;
    let error = refusal(&report)?;
    assert_tells(&error, &["the broker gave nothing usable to this guest"]);
    assert_no_secret(&confided.site, &report.console);
    assert!(stand_in.requests().is_empty(), "it was asked");
    Ok(())
}
