//! The four examples of RFC 011, "Registry Authentication", each pulled for real. Names are those
//! of the examples, in a mount namespace whose `/etc/hosts` leads to servers of the test. One
//! authority stands for the web's: only examples that trust the web have it in an entry of its own,
//! `.`.

use std::fs;
use std::process::{Command, Output};

use fault_registry::{Content, FaultRegistry, Http, Image, Layer, Login, Script, Tls};
use test_http::pki::Authority;
use vm_harness::Scratch;
use vm_harness::proxy::{Proxy, Rules};

use crate::support::{PASSWORD, USER};

/// The names of the examples; all of them are this machine.
const NAMES: [&str; 6] = [
    "registry.corp",
    "ghcr.io",
    "quay.io",
    "proxy.corp",
    "very-secure.registri.es",
    "registry.default.svc.cluster.local",
];

/// A network with registries of those names.
struct Network {
    scratch: Scratch,
    content: Content,
    manifest: String,
}

impl Network {
    fn new() -> Self {
        let layer = Layer::gzip(&[("hello", b"from the registry")]).unwrap();
        let image = Image::new(vec![layer]);
        let mut content = Content::default();
        let manifest = image.publish(&mut content);
        Self { scratch: Scratch::new().unwrap(), content, manifest }
    }

    /// A registry of that name, which wants the password if there is a login.
    fn registry(&self, name: &str, authority: &Authority, login: bool) -> FaultRegistry {
        let identity = authority.sign(&[name]).unwrap();
        let tls = Tls { identity: &identity, name, http: Http::One };
        let mut script = Script::new();
        if login {
            script = script.login(Login::basic(USER, PASSWORD));
        }
        FaultRegistry::start(self.content.clone(), script, Some(&tls)).unwrap()
    }

    /// Pulls the image of a registry of that name.
    fn pull(&self, document: &str, name: &str, registry: &FaultRegistry) -> Output {
        let directory = tempfile::tempdir_in(self.scratch.path()).unwrap().keep();
        fs::write(directory.join("imagepuller.toml"), document).unwrap();
        let hosts: String = NAMES.map(|name| format!("127.0.0.1 {name}\n")).concat();
        fs::write(directory.join("hosts"), hosts).unwrap();
        let port = registry.address().port();
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg("mount --bind \"$0\" /etc/hosts && exec \"$@\"")
            .arg(directory.join("hosts"))
            .args([env!("CARGO_BIN_EXE_imagepuller"), "pull", "--config"])
            .arg(directory.join("imagepuller.toml"))
            .arg("--output")
            .arg(directory.join("out"))
            .arg(format!("{name}:{port}/team/app@{}", self.manifest))
            .output()
            .unwrap()
    }
}

#[track_caller]
fn assert_pulled(output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    for word in words {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(!error.contains(PASSWORD), "{error}");
}

fn has_credentials(registry: &FaultRegistry) -> bool {
    let requests = registry.requests();
    assert!(!requests.is_empty());
    requests.iter().any(|request| request.header("authorization").is_some())
}

fn auth() -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"))
}

/// A registry behind the firewall with a CA of its own; all others through a proxy that speaks TLS.
#[test]
fn privileged_example_1_a_private_ca_and_a_proxy() {
    vm_harness::needs_root!();
    let network = Network::new();
    let [corp, web] = ["corp", "web"].map(|name| Authority::new(name).unwrap());
    let registry = network.registry("registry.corp", &corp, false);
    let ghcr = network.registry("ghcr.io", &web, true);
    let quay = network.registry("quay.io", &web, false);
    let rules = Rules {
        username: "proxyuser",
        password: "proxypass",
        names: &["ghcr.io", "quay.io", "registry.corp"],
        ports: &[],
    };
    let plain_proxy = Proxy::tinyproxy(&network.scratch, &rules).unwrap();
    let identity = web.sign(&["proxy.corp"]).unwrap();
    let proxy = Proxy::tls_front(&network.scratch, &identity, plain_proxy.port()).unwrap();
    let proxy = format!("https://proxyuser:proxypass@proxy.corp:{}", proxy.port());
    let (auth, web, corp) = (auth(), web.certificate(), corp.certificate());
    let document = format!(
        "[extra-env]\nHTTP_PROXY = \"{proxy}\"\nHTTPS_PROXY = \"{proxy}\"\nNO_PROXY = \".corp\"\n\
        [registries.\"registry.corp.\"]\nca-certs = '''\n{corp}'''\n\
        [registries.\"ghcr.io.\"]\nauth = \"{auth}\"\nca-certs = '''\n{web}'''\n\
        [registries.\".\"]\nca-certs = '''\n{web}'''\n"
    );
    assert_pulled(&network.pull(&document, "registry.corp", &registry));
    assert!(!has_credentials(&registry));
    assert!(plain_proxy.asked().is_empty(), "{}", plain_proxy.log());
    assert_pulled(&network.pull(&document, "ghcr.io", &ghcr));
    assert!(has_credentials(&ghcr));
    assert_pulled(&network.pull(&document, "quay.io", &quay));
    assert!(!has_credentials(&quay));
    let asked = plain_proxy.asked().join("\n");
    assert!(asked.contains("ghcr.io") && asked.contains("quay.io"), "{asked}");
    assert!(!asked.contains("registry.corp"), "{asked}");
}

/// One registry with two pinned roots, and nobody else.
#[test]
fn privileged_example_2_pinned_roots_and_a_forbidden_rest() {
    vm_harness::needs_root!();
    let network = Network::new();
    let [one, two, web] = ["one", "two", "web"].map(|name| Authority::new(name).unwrap());
    let document = format!(
        "[registries.\"very-secure.registri.es\"]\nauth = \"{}\"\nca-certs = '''\nRoot CA 1\n{}\
        Root CA 2\n{}'''\n\
        [registries.\".\"]\nca-certs = \"no PEM here means no CA certificates\"\n",
        auth(),
        one.certificate(),
        two.certificate()
    );
    let name = "very-secure.registri.es";
    for authority in [&one, &two] {
        let registry = network.registry(name, authority, true);
        assert_pulled(&network.pull(&document, name, &registry));
        assert!(has_credentials(&registry));
    }
    let impostor = network.registry(name, &web, true);
    let refused = network.pull(&document, name, &impostor);
    assert_refused(&refused, &["is not trusted", "unknown authority"]);
    assert!(impostor.requests().is_empty());
    let other = network.registry("quay.io", &one, false);
    let refused = network.pull(&document, "quay.io", &other);
    assert_refused(&refused, &["quay.io", "is forbidden", "holds no certificate"]);
    assert_eq!(other.connections(), 0);
}

/// A registry of the cluster without TLS; TLS for everything else, anonymously.
#[test]
fn privileged_example_3_plain_http_in_the_cluster() {
    vm_harness::needs_root!();
    let network = Network::new();
    let web = Authority::new("web").unwrap();
    let example = "[registries.\"registry.default.svc.cluster.local.\"]\n\
        insecure-skip-verify = true\n";
    let document =
        format!("{example}[registries.\".\"]\nca-certs = '''\n{}'''\n", web.certificate());
    let plain = || FaultRegistry::start(network.content.clone(), Script::new(), None).unwrap();
    let registry = plain();
    let name = "registry.default.svc.cluster.local";
    assert_pulled(&network.pull(&document, name, &registry));
    assert!(!has_credentials(&registry));
    let quay = network.registry("quay.io", &web, false);
    assert_pulled(&network.pull(&document, "quay.io", &quay));
    assert!(!has_credentials(&quay));
    // No other name is asked in clear.
    let other = plain();
    assert_refused(&network.pull(example, "quay.io", &other), &["quay.io"]);
    assert!(other.requests().is_empty());
}

/// A name without a dot before it is that host alone, as the RFC says; Contrast takes it for hosts
/// below it too. Who comes from there reads what to write.
#[test]
fn privileged_a_name_that_nearly_matches_is_named() {
    vm_harness::needs_root!();
    let network = Network::new();
    let web = Authority::new("web").unwrap();
    let name = "registry.default.svc.cluster.local";
    let registry = network.registry(name, &web, false);
    let document = |entry: &str| {
        let roots = web.certificate();
        format!("[registries.\"{entry}\"]\nca-certs = '''\n{roots}'''\n")
    };
    let refused = network.pull(&document("svc.cluster.local"), name, &registry);
    let words = [
        "is not trusted",
        "(\"svc.cluster.local.\" holds for that host alone; hosts below it need \
        \".svc.cluster.local.\")",
    ];
    assert_refused(&refused, &words);
    assert!(registry.requests().is_empty());
    assert_pulled(&network.pull(&document(".svc.cluster.local"), name, &registry));
}

/// Nothing was configured: the web's roots, and no credentials. The test's authority is not among
/// them.
#[test]
fn privileged_example_4_an_empty_document() {
    vm_harness::needs_root!();
    let network = Network::new();
    let web = Authority::new("web").unwrap();
    let quay = network.registry("quay.io", &web, false);
    let refused = network.pull("", "quay.io", &quay);
    assert_refused(&refused, &["is not trusted", "the web's public roots"]);
    assert!(quay.requests().is_empty());
    // With the test's authority in the place of the web's, it is pulled, anonymously.
    let document = format!("[registries.\".\"]\nca-certs = '''\n{}'''\n", web.certificate());
    assert_pulled(&network.pull(&document, "quay.io", &quay));
    assert!(!has_credentials(&quay));
}
