//! A whole file as a password: the key of a service account, which Google's registries take as the
//! password of `_json_key`. Whatever people have it in, the registry gets every byte of it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use confidential_fixtures::Vault;
use config_image::Magic;
use end_to_end::{HostPull, Outcome};
use fault_registry::{Content, FaultRegistry, Http, Image, Layer, Login, Script, Tls};
use serde_json::json;
use test_http::pki::Authority;
use vm_harness::{Program, Scratch};

const USER: &str = "_json_key";

/// With each kind of white space that a file may have.
const KEY: &str = "{\r\n\t\"type\": \"service_account\",\n  \"private_key\": \
    \"-----BEGIN X-----\\nhunter2\\n-----END X-----\\n\"\n}\n";

/// A registry for this password, and the files of a node.
struct Site {
    scratch: Scratch,
    authority: Authority,
    registry: FaultRegistry,
    digest: String,
    host: String,
}

impl Site {
    fn start(script: Script) -> Result<Self> {
        let authority = Authority::new("corp private CA")?;
        let identity = authority.sign(&["localhost"])?;
        let tls = Tls { identity: &identity, name: "localhost", http: Http::One };
        let mut content = Content::default();
        let digest = Image::new(vec![Layer::gzip(&[("file", b"content")])?]).publish(&mut content);
        let registry = FaultRegistry::start(content, script, Some(&tls))?;
        Ok(Self {
            scratch: Scratch::new()?,
            host: format!("localhost:{}", registry.address().port()),
            authority,
            registry,
            digest,
        })
    }

    fn roots(&self) -> String {
        format!("ca-certs = '''\n{}'''\n", self.authority.certificate())
    }

    fn entry(&self, keys: &str) -> String {
        format!("[registries.\"{}\"]\n{keys}{}", self.host, self.roots())
    }

    /// A document that knows only the CA.
    fn base(&self) -> Result<String> {
        let text = format!("[registries.\".\"]\n{}", self.roots());
        let path = self.scratch.write("base.toml", text)?;
        Ok(path.display().to_string())
    }

    fn docker_config(&self, fields: &serde_json::Value) -> String {
        json!({"auths": {&self.host: fields}}).to_string()
    }

    /// What `kata-configdev` makes of this input, put below the base.
    fn made(&self, command: &str, input: &str) -> Result<String> {
        let base = self.base()?;
        let words = command.split(' ').chain(["--output", "-", "--into", &base]);
        kata_configdev(&words.collect::<Vec<_>>(), input)
    }

    /// The document of a sandbox on a node whose kubelet has a plugin that answers with the key.
    fn by_plugin(&self) -> Result<String> {
        let base = self.base()?;
        let at = self.scratch.path().display();
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "auth": {&self.host: {"username": USER, "password": KEY}},
        });
        for (name, text) in [
            ("answer.json", answer.to_string()),
            (
                "providers.yaml",
                format!(
                    "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n\
                     providers:\n- {{name: key, matchImages: [\"{}\"], defaultCacheDuration: 0s, \
                     apiVersion: credentialprovider.kubelet.k8s.io/v1}}\n",
                    self.host
                ),
            ),
            (
                "settings.toml",
                format!(
                    "transport = \"file\"\ndocument = \"{base}\"\nrun-root = \"{at}\"\n\
                     [credential-providers]\nconfig = \"{at}/providers.yaml\"\n\
                     bin-dir = \"{at}/bin\"\nregistries = \"matchImages\"\ndeadline-secs = 50\n"
                ),
            ),
        ] {
            self.scratch.write(name, text)?;
        }
        for directory in ["bin", "bundle"] {
            std::fs::create_dir(self.scratch.path().join(directory))?;
        }
        let spec = r#"{"ociVersion":"1.1.0","annotations":{}}"#;
        self.scratch.write("bundle/config.json", spec)?;
        let program = format!("#!/bin/sh\nexec cat {at}/answer.json\n");
        let program = self.scratch.write("bin/key", program)?;
        std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let (settings, bundle) = (format!("{at}/settings.toml"), format!("{at}/bundle"));
        let words = ["attach", "--settings", &settings, "--bundle", &bundle];
        let report = kata_configdev(&[&words[..], &["--sandbox-id", "s1"]].concat(), "")?;
        let report: serde_json::Value = serde_json::from_str(&report)?;
        let disk = report["path"].as_str().context("no disk")?;
        let image = config_image::decode(std::fs::read(disk)?.as_slice(), Magic::IMAGEPULLER)?;
        Ok(String::from_utf8(image.document.to_vec())?)
    }

    /// Pulls, and compares every header that carried a password.
    fn pulls(&self, pull: HostPull) -> Result<()> {
        let before = self.registry.requests().len();
        let image = format!("{}/p/app@{}", self.host, self.digest);
        let outcome: Outcome = pull.run(&image)?;
        outcome.files()?;
        let mut sent = 0;
        for request in &self.registry.requests()[before..] {
            let header = request.header("authorization").unwrap_or_default();
            if let Some(pair) = header.strip_prefix("Basic ") {
                ensure!(STANDARD.decode(pair)? == pair_of(KEY).into_bytes());
                sent += 1;
            }
        }
        ensure!(sent > 0, "no password was sent");
        ensure!(!outcome.said.contains("hunter2"), "{}", outcome.said);
        ensure!(!outcome.reasons.contains("hunter2"), "{}", outcome.reasons);
        Ok(())
    }
}

fn pair_of(password: &str) -> String {
    format!("{USER}:{password}")
}

fn auth() -> String {
    STANDARD.encode(pair_of(KEY))
}

/// What the program prints. What it says beside that shows no password.
fn kata_configdev(arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(Program::KataConfigdev.path()?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let _ = child.stdin.take().context("no pipe")?.write_all(input.as_bytes());
    let output = child.wait_with_output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(!said.contains("hunter2"), "{said}");
    ensure!(output.status.success(), "{arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The secret of a pod, as `kubectl create secret docker-registry` makes it.
fn secret(config: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: pull, namespace: team}}\n\
         type: kubernetes.io/dockerconfigjson\ndata: {{.dockerconfigjson: {}}}\n",
        STANDARD.encode(config)
    )
}

/// An import left the account out, a plugin's answer was lost, and the document refused it: a line
/// end in a password was a control character like others.
#[test]
fn privileged_the_key_of_a_service_account_is_a_password_from_every_source() -> Result<()> {
    let name = "privileged_the_key_of_a_service_account_is_a_password_from_every_source";
    if !vm_harness::is_root(name) {
        return Ok(());
    }
    let site = Site::start(Script::new().login(Login::basic(USER, KEY)))?;
    let by_auth = site.docker_config(&json!({"auth": auth()}));
    let by_keys = site.docker_config(&json!({"username": USER, "password": KEY}));
    let import = "import docker-config --strict -";
    let account = format!("--registry {} --user {USER} --password-stdin", site.host);
    let exported = format!(
        "{}---\napiVersion: secretgen.carvel.dev/v1alpha1\nkind: SecretExport\n\
         metadata: {{name: pull, namespace: team}}\nspec: {{toNamespace: kata}}\n",
        secret(&by_keys)
    );
    let combine = ["secrets", "combine", "--namespace", "kata", "-"];
    let combined = kata_configdev(&combine, &exported)?;
    let documents = [
        ("auth of a docker config", site.made(import, &by_auth)?),
        ("keys of a docker config", site.made(import, &by_keys)?),
        ("a secret", site.made(import, &secret(&by_auth))?),
        ("a placeholder", site.made(import, &secret(&combined))?),
        ("a prompt", site.made(&format!("new {account}"), KEY)?),
        ("a plugin", site.by_plugin()?),
        (
            "password of a document",
            site.entry(&format!("username = \"{USER}\"\npassword = {}\n", json!(KEY))),
        ),
        ("auth of a document", site.entry(&format!("auth = \"{}\"\n", auth()))),
    ];
    for (source, document) in &documents {
        site.pulls(HostPull::new(document)?).context(*source)?;
    }
    for configuration in [by_auth, by_keys] {
        let vault = Vault::new()
            .with("default/credential/registry", configuration)
            .with("default/ca/registry", site.authority.certificate());
        let file = site.scratch.write("vault.json", vault.offline_file())?;
        let reference = "credentials-uri = \"kbs:///default/credential/registry\"\n\
            ca-certs-uri = \"kbs:///default/ca/registry\"\n";
        let document = format!("[registries.\"{}\"]\n{reference}", site.host);
        let source = format!("file={}", file.display());
        let pull = HostPull::new(&document)?.resources(&source);
        site.pulls(pull).context("a key broker")?;
    }
    // So does the host's kubelet, whose plugin we are.
    let (_, document) = &documents[0];
    let file = site.scratch.write("imagepuller.toml", document)?;
    let question = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": format!("{}/probe", site.host),
    });
    let words = ["credential-provider", "--config", &file.display().to_string()];
    let answer = kata_configdev(&words, &question.to_string())?;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    assert_eq!(answer["auth"][&site.host]["password"], KEY);
    // A token server gets the same.
    let tokens = Site::start(Script::new().login(Login::bearer(USER, KEY, "token")))?;
    let document = tokens.entry(&format!("auth = \"{}\"\n", auth()));
    tokens.pulls(HostPull::new(&document)?)
}
