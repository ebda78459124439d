//! A document for each namespace, with specs that the container engines wrote for pods whose
//! authors wanted another one.

use std::path::Path;

use config_image::{Magic, decode};
use kata_configdev::providers::agent;
use kata_configdev::sandbox_id::SandboxId;
use kata_configdev::shared_image::record;
use serde_json::{Map, Value, json};

use crate::wrapper::node::{ANNOTATION, Node};
use crate::wrapper::refusal::{SANDBOX, assert_refusal, run, sandbox};

const CONTAINERD: &str = "io.kubernetes.cri.sandbox-namespace";
const CRIO: &str = "io.kubernetes.pod.namespace";

/// The namespaces that have a document, among them all that the recorded pods lie about.
const NAMESPACES: [&str; 6] = ["t", "team-a", "team-b", "kube-system", "spoofed", "spoof"];

/// A node of `engine` with a document for each namespace, and what its pods may name.
fn node(engine: &str) -> Node {
    let node = Node::new("/bin/echo");
    for folder in ["run", "teams", "teams/team-a", "teams/team-b"] {
        std::fs::create_dir(node.path(folder)).unwrap();
    }
    for name in NAMESPACES {
        node.write(&format!("teams/{name}.toml"), document(name));
    }
    node.write("teams/team-a/more.toml", document("more-a"));
    node.write("teams/team-b/more.toml", document("more-b"));
    node.write("allowed/all.toml", document("all"));
    settings(&node, engine, "");
    node
}

fn settings(node: &Node, engine: &str, more: &str) {
    let text = format!(
        "qemu = \"/bin/echo\"\ntransport = \"file\"\nrun-root = {:?}\nengine = {engine:?}\n\
         document = {:?}\nannotation-allow = [{:?}, {:?}]\n{more}",
        node.path("run"),
        node.path("teams/{namespace}.toml"),
        node.path("teams/{namespace}"),
        node.path("allowed"),
    );
    node.write("settings.toml", text);
}

fn document(name: &str) -> String {
    format!("[registries.\"{name}.corp\"]\nregistrytoken = \"hunter2-{name}\"\n")
}

fn spec(node: &Node, annotations: &Map<String, Value>) {
    let spec = json!({ "ociVersion": "1.1.0", "annotations": annotations });
    node.write("bundle/config.json", spec.to_string());
}

/// The annotations of an honest pod of `namespace`.
fn honest(engine: &str, namespace: &str) -> Map<String, Value> {
    let (key, mark) = match engine {
        "containerd" => (CONTAINERD, ("io.kubernetes.cri.container-type", "sandbox")),
        _ => (CRIO, ("io.kubernetes.container.name", "POD")),
    };
    let annotations = json!({ key: namespace, (mark.0): mark.1 });
    annotations.as_object().unwrap().clone()
}

/// The document on the sandbox's disk; `None` where it has no disk.
fn given(node: &Node) -> Option<String> {
    let place = node.path("run/kata-containers/shared/initdata");
    let image = std::fs::read(place.join("0123/imagepuller.img")).ok()?;
    let found = decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
    Some(String::from_utf8(found.document.to_vec()).unwrap())
}

/// What the wrapper gives a sandbox with this spec: a document, nothing, or the line of a refusal.
fn start(node: &Node) -> Result<Option<String>, String> {
    let place = node.path("run/kata-containers");
    let _ = std::fs::remove_dir_all(&place);
    let output = run(node, &SANDBOX);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("hunter2"), "{stderr}");
    if place.exists() {
        // The id is that of the runtime's arguments, whatever the spec says.
        let ids = std::fs::read_dir(place.join("shared/initdata")).unwrap();
        let ids: Vec<_> = ids.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(ids, ["0123"]);
    }
    if output.status.code() == Some(0) {
        assert_eq!(stderr, "");
        return Ok(given(node));
    }
    assert_eq!(output.status.code(), Some(65), "{stderr}");
    assert_eq!(given(node), None);
    Err(stderr)
}

/// One recorded spec: its engine, its name, the pod's real namespace, and the annotations.
struct Recorded {
    engine: &'static str,
    name: String,
    namespace: &'static str,
    annotations: Map<String, Value>,
}

fn recorded() -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oci-spec");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut add = |engine, name: String, namespace, text: &str| {
            all.push(Recorded {
                engine,
                name,
                namespace,
                annotations: serde_json::from_str(text).unwrap(),
            });
        };
        if name.starts_with("containerd-") {
            for part in text.split("\n}").filter(|part| !part.trim().is_empty()) {
                let (title, object) = part.split_once('{').unwrap();
                let object = format!("{{{object}}}");
                add("containerd", title.trim().to_owned(), "t", &object);
            }
        } else if name.starts_with("cri-o-") {
            let namespace = match name.contains("cri-client") {
                true => "team-a",
                false => "t",
            };
            add("cri-o", name, namespace, &text);
        }
    }
    assert_eq!(all.len(), 16);
    all
}

/// Whatever an author writes, and whichever engine the settings name: its own document or none.
#[test]
fn a_recorded_pod_gets_its_own_document_or_none() {
    let mut found = std::collections::BTreeMap::<_, u32>::new();
    for engine in ["containerd", "cri-o"] {
        let node = node(engine);
        for one in recorded() {
            let is_container = one.annotations.get("io.kubernetes.cri.container-type")
                == Some(&"container".into());
            let is_real = one.engine == engine;
            let other = if engine == "containerd" { CRIO } else { CONTAINERD };
            // As it is, and without the one key that makes two engines of it; or with another lie
            // where the settings name the wrong engine.
            for forged in [true, false] {
                let mut annotations = one.annotations.clone();
                match (forged, is_real) {
                    (true, _) => {}
                    (false, true) => drop(annotations.remove(other)),
                    (false, false) => {
                        let mut marks = honest(engine, "");
                        marks.retain(|key, _| ![CONTAINERD, CRIO].contains(&key.as_str()));
                        annotations.extend(marks);
                    }
                }
                spec(&node, &annotations);
                let started = start(&node);
                let own = Ok(Some(document(one.namespace)));
                let name = format!("{} as {engine}: {started:?}", one.name);
                assert!(started == own || started.is_err(), "{name}");
                if is_real && !is_container && !annotations.contains_key(other) {
                    assert_eq!(started, own, "{name}");
                }
                *found.entry((is_real, started.is_ok())).or_default() += 1;
            }
        }
    }
    // 7 of the 16 specs are of containers. 3 are of containerd's sandboxes whose pods lie about
    // nothing that counts; 4 others do, and the 2 of CRI-O.
    let expected = [((false, false), 32), ((true, false), 20), ((true, true), 12)];
    assert_eq!(found, expected.into());
}

#[test]
fn a_spec_that_does_not_say_whose_it_is_starts_nothing() {
    for (engine, key, other) in [("containerd", CONTAINERD, CRIO), ("cri-o", CRIO, CONTAINERD)] {
        let node = node(engine);
        settings(&node, engine, "namespace-fallback = \"none\"\n");
        let good = honest(engine, "team-a");
        spec(&node, &good);
        assert_eq!(start(&node), Ok(Some(document("team-a"))));
        let marks = good.keys().find(|name| *name != key).unwrap().clone();
        let with = |changes: &[(&str, Option<&str>)]| {
            let mut annotations = good.clone();
            for (key, value) in changes {
                match value {
                    Some(value) => annotations.insert((*key).into(), (*value).into()),
                    None => annotations.remove(*key),
                };
            }
            json!({ "ociVersion": "1.1.0", "annotations": annotations }).to_string()
        };
        let mut cases = vec![
            (r#"{"ociVersion":"1.1.0"}"#.to_owned(), format!("has no {key}: set engine")),
            (with(&[(key, None)]), format!("has no {key}")),
            (with(&[(&marks, None)]), format!("not the spec of a sandbox: {marks}")),
            (with(&[(&marks, Some("container"))]), "not the spec of a sandbox".into()),
            (with(&[(&marks, Some("app"))]), "not the spec of a sandbox".into()),
            (
                with(&[(other, Some("team-b"))]),
                format!("{key} and {other} name different ones: take the key"),
            ),
        ];
        let long = "a".repeat(64);
        for name in ["", ".", "..", "team-a/../team-b", "../x", "Team-a", "-a", "a-", "a.b", &long]
        {
            let rule = format!("the value of {key} is no name");
            cases.push((with(&[(key, Some(name))]), rule));
        }
        for twice in [
            format!(r#""{key}":"team-a","{key}":"team-b""#),
            format!(r#""{key}":"team-a","\u0069{}":"team-b""#, &key[1..]),
        ] {
            let text = with(&[(key, None)]).replacen(":{", &format!(":{{{twice},"), 1);
            cases.push((text, "not an OCI spec at line".into()));
        }
        for (text, rule) in cases {
            node.write("bundle/config.json", &text);
            assert_refusal(&node, sandbox(&node), 65, &[&rule]);
            assert_eq!(given(&node), None, "{text}");
        }
        // Who asks for no disk gets none, and needs no name.
        node.annotate("");
        assert_eq!(start(&node), Ok(None));
    }
}

/// Who names nothing else gets the document of the namespace, and an annotation leads to no other
/// one, by whatever path, link or name.
#[test]
fn a_pod_cannot_name_what_is_another_namespaces() {
    let node = node("containerd");
    for (link, target) in [
        ("teams/team-a/b.toml", "../team-b.toml"),
        ("teams/team-a/b", "../team-b"),
        ("allowed/teams", "../teams"),
        ("teams/team-c.toml", "team-b.toml"),
    ] {
        std::os::unix::fs::symlink(target, node.path(link)).unwrap();
    }
    let named = |namespace: &str, path: &str| {
        let mut annotations = honest("containerd", namespace);
        let path = node.path(path).to_str().unwrap().to_owned();
        annotations.insert(ANNOTATION.into(), path.into());
        spec(&node, &annotations);
        start(&node)
    };
    let own = named("team-a", "teams/team-a/more.toml");
    assert_eq!(own, Ok(Some(document("more-a"))));
    assert_eq!(named("team-a", "allowed/all.toml"), Ok(Some(document("all"))));
    for path in [
        "teams/team-b/more.toml",
        "teams/team-b.toml",
        "teams/team-a/../team-b/more.toml",
        "teams/team-a/b.toml",
        "teams/team-a/b/more.toml",
        "allowed/teams/team-b.toml",
        "allowed/../teams/team-b.toml",
        "teams/{namespace}/more.toml",
        "forbidden/x.toml",
    ] {
        let line = named("team-a", path).unwrap_err();
        assert!(line.contains("failed to use the annotation"), "{line}");
    }
    spec(&node, &honest("containerd", "team-c"));
    assert!(start(&node).unwrap_err().contains("symbolic link"));
}

#[test]
fn the_administrator_says_what_others_get() {
    let node = node("cri-o");
    spec(&node, &honest("cri-o", "team-z"));
    let missing = node.path("teams/team-z.toml");
    let line = start(&node).unwrap_err();
    let rule = format!("there is no {}: put the document", missing.display());
    assert!(line.contains(&rule), "{line}");
    let all = node.path("allowed/all.toml");
    let late = Ok(Some("node-error = \"late\"\n".to_owned()));
    for (more, expected) in [
        ("missing-document = \"late\"\n".to_owned(), late.clone()),
        ("namespace-fallback = \"none\"\n".to_owned(), Ok(None)),
        (format!("namespace-fallback = {all:?}\n"), Ok(Some(document("all")))),
        (
            format!("namespace-fallback = {:?}\nmissing-document = \"late\"\n", node.path("gone")),
            late,
        ),
    ] {
        settings(&node, "cri-o", &more);
        assert_eq!(start(&node), expected, "{more}");
    }
    settings(&node, "cri-o", &format!("namespace-fallback = {all:?}\n"));
    start(&node).unwrap().unwrap();
    let id = SandboxId::parse("0123").unwrap();
    let record = record::read(&node.path("run"), &id).unwrap().unwrap();
    assert_eq!((record.document, record.fallback), (Some(missing), Some(all)));
    assert_eq!(record.namespace.unwrap().as_str(), "team-z");
}

/// The document of a namespace says only what differs from that of the site.
#[test]
fn the_base_completes_the_document_of_a_namespace() {
    let node = node("containerd");
    spec(&node, &honest("containerd", "team-a"));
    let base = node.path("teams/_base.toml");
    settings(&node, "containerd", &format!("namespace-base = {base:?}\n"));
    let refused = |rule: &str| {
        let line = start(&node).unwrap_err();
        assert!(line.contains(rule) && line.contains("_base.toml: "), "{line}");
    };
    refused("complete the document of the pod's namespace by ");
    let entry = "[registries.\"team-a.corp\"]\nregistrytoken = \"hunter2-";
    let proxy = "[extra-env]\nHTTPS_PROXY = \"http://proxy.corp:3128\"\n\n";
    let site = document("site");
    node.write(
        "teams/_base.toml",
        format!("{proxy}{entry}base\"\nplain-http = true\nca-certs = \"none\"\n{site}"),
    );
    let own = format!("{entry}team-a\"\nca-certs = \"none\"\n");
    assert_eq!(start(&node), Ok(Some(format!("{proxy}{site}\n{own}"))));
    // Whoever says whom to ask has no password of the site sent there.
    let way = "[registries.\"team-a.corp\"]\nmirror = \"https://tenant.corp\"\n";
    node.write("teams/team-a.toml", way);
    let given = start(&node).unwrap().unwrap();
    assert!(given.contains("tenant.corp") && !given.contains("hunter2-base"), "{given}");
    node.write("teams/team-a.toml", "node-error = \"later\"\n");
    assert_eq!(start(&node), Ok(Some("node-error = \"later\"\n".into())));
    node.write("teams/team-a.toml", document("team-a"));
    for (text, rule) in [
        ("pasword = 1\n", "line 1: pasword: unknown key"),
        ("node-error = \"late\"\n", "it says why there is none"),
    ] {
        node.write("teams/_base.toml", text);
        refused(rule);
    }
}

/// Without a spec nobody knows whose the sandbox is, so it gets nobody's document.
#[test]
fn without_a_spec_there_is_no_namespace() {
    let node = node("containerd");
    std::fs::remove_file(node.path("bundle/config.json")).unwrap();
    let all = node.path("allowed/all.toml");
    let fallback = format!("namespace-fallback = {all:?}\n");
    settings(&node, "containerd", &fallback);
    assert!(start(&node).unwrap_err().contains("has no config.json"));
    let text = format!("{fallback}without-spec = \"none\"\n");
    settings(&node, "containerd", &text);
    assert_eq!(start(&node), Ok(None));
    let text = format!("{fallback}without-spec = \"node\"\n");
    settings(&node, "containerd", &text);
    let line = start(&node).unwrap_err();
    assert!(line.contains("without-spec: a sandbox without a spec"), "{line}");
}

/// Settings that would let the pod's author choose are no settings.
#[test]
fn the_engine_must_be_named() {
    let node = node("containerd");
    spec(&node, &honest("containerd", "team-a"));
    let text = std::fs::read_to_string(node.path("settings.toml")).unwrap();
    node.write("settings.toml", text.replace("engine = ", "# "));
    let rule = "settings.toml:5: document: {namespace} needs engine = \"containerd\" or";
    assert_refusal(&node, sandbox(&node), 65, &[rule]);
}

/// The node agent asks the kubelet's plugins for the documents of all namespaces at once.
#[test]
fn the_agents_promise_is_for_every_namespace() {
    let node = node("containerd");
    std::fs::create_dir(node.path("bin")).unwrap();
    let script = format!("#!/bin/sh\ntouch {}\n", node.path("asked").display());
    node.program("bin/plugin", "755", &script);
    node.write(
        "providers.yaml",
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
         - name: plugin\n  matchImages: [\"*.corp\"]\n  defaultCacheDuration: 10m\n  \
         apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
    );
    let providers = format!(
        "[credential-providers]\nregistries = [\"slow.corp\"]\nconfig = {:?}\nbin-dir = {:?}\n",
        node.path("providers.yaml"),
        node.path("bin"),
    );
    settings(&node, "containerd", &providers);
    spec(&node, &honest("containerd", "team-a"));
    let stderr = || String::from_utf8(run(&node, &SANDBOX).stderr).unwrap();
    let promise = |document: &str| agent::promise(&node.path("run"), &node.path(document)).unwrap();
    let asked = node.path("asked");
    // Of one namespace nobody promises anything.
    let _other = promise("teams/team-a.toml");
    assert!(!stderr().contains("the node agent asks it"));
    std::fs::remove_file(&asked).unwrap();
    let _asks = promise("teams/{namespace}.toml");
    assert!(stderr().contains("the node agent asks it"));
    assert!(!asked.exists());
    assert_eq!(given(&node), Some(document("team-a")));
}
