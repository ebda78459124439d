#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use super::*;

/// What `kubectl create secret docker-registry` makes, with a list, an export and something else.
const YAML: &str = r#"# comment
---
apiVersion: v1
kind: Secret
metadata:
  name: pull
  namespace: team
  creationTimestamp: null
  annotations: {"a": "b", kubectl.kubernetes.io/last-applied-configuration: hunter2}
type: kubernetes.io/dockerconfigjson
data:
  .dockerconfigjson: |
    eyJhdXRocyI6eyJnaGNyLmlvIjp7ImF1
    dGgiOiJkVHB3YjJsdWRHVnkifX19
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: {name: old}
  type: kubernetes.io/dockercfg
  stringData:
    .dockercfg: |
      {"quay.io": {"username": "u", "password": "hunter2"}}
  data:
    .dockercfg: bm90IGpzb24=
- apiVersion: secretgen.carvel.dev/v1alpha1
  kind: SecretExport
  metadata: {name: pull, namespace: team}
  spec:
    toNamespace: a
    toNamespaces: ["*"]
    dangerousToNamespacesSelector:
    - {key: metadata.name, operator: Exists}
---
---
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: apps/v1
kind: Deployment
spec: {template: {spec: {containers: []}}}
"#;

#[test]
fn yaml_of_every_kind_is_read() {
    let objects = parse(YAML.as_bytes()).unwrap();
    let [
        Object::Secret(new),
        Object::Secret(old),
        Object::Export(export),
        Object::Namespace(namespace),
        Object::Other(kind),
    ] = &objects[..]
    else {
        panic!("{objects:?}");
    };
    assert_eq!(new.metadata.full_name(), "team/pull");
    assert_eq!(new.metadata.annotations["a"], "b");
    assert_eq!(new.metadata.annotations.len(), 1);
    assert_eq!(old.metadata.full_name(), "default/old");
    for (secret, key) in [(new, "ghcr.io"), (old, "quay.io")] {
        let Payload::Config(config) = secret.payload().unwrap() else {
            panic!("{secret:?}");
        };
        assert!(config.entries.contains_key(key));
    }
    assert_eq!(export.to_namespaces, ["*", "a"]);
    assert_eq!(export.selectors.len(), 1);
    assert_eq!(namespace.name, "a");
    assert_eq!(kind, "Deployment");
    assert!(!format!("{objects:?}").contains("hunter2"));
}

#[test]
fn json_is_read_and_a_list_of_secrets() {
    let json = br#"{"apiVersion":"v1","kind":"SecretList","items":[{
        "apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},
        "type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"e30="}}]}"#;
    let objects = parse(json).unwrap();
    let [Object::Secret(secret)] = &objects[..] else {
        panic!("{objects:?}");
    };
    assert!(matches!(secret.payload(), Ok(Payload::Config(_))));
    // YAML's own way of writing an object.
    assert_eq!(parse(b"{apiVersion: v1, kind: Secret}").unwrap().len(), 1);
}

fn secret(kind: &str, key: &str, value: &str) -> SecretManifest {
    let yaml =
        format!("{{apiVersion: v1, kind: Secret, type: {kind}, data: {{{key}: \"{value}\"}}}}");
    match parse(yaml.as_bytes()).unwrap().remove(0) {
        Object::Secret(secret) => secret,
        other => panic!("{other:?}"),
    }
}

/// Kubelet looks at the type and the key together.
#[test]
fn type_and_key_count_together() {
    for (kind, key, value, suspicious) in [
        ("Opaque", ".dockerconfigjson", "e30=", true),
        (DOCKER_CFG, ".dockerconfigjson", "e30=", true),
        (DOCKER_CONFIG_JSON, ".dockercfg", "e30=", true),
        (DOCKER_CONFIG_JSON, ".dockerconfigjson", "", true),
        ("Opaque", "password", "e30=", false),
    ] {
        let Payload::Ignored { loss, .. } = secret(kind, key, value).payload().unwrap() else {
            panic!("{kind} {key}");
        };
        assert_eq!(loss == Loss::Lost, suspicious, "{kind} {key}");
    }
    for value in ["e30=", "e3\\n0=", "e30K"] {
        let payload = secret(DOCKER_CONFIG_JSON, ".dockerconfigjson", value).payload();
        assert!(matches!(payload, Ok(Payload::Config(_))), "{value}");
    }
    for value in ["e30", "hunter2!", "e30= "] {
        let error = secret(DOCKER_CONFIG_JSON, ".dockerconfigjson", value).payload();
        assert_eq!(error.unwrap_err(), SecretError::NotBase64, "{value}");
    }
    let error = secret(DOCKER_CFG, ".dockercfg", "W10=").payload().unwrap_err();
    assert!(matches!(error, SecretError::Config(_)));
}

#[test]
fn other_texts_are_refused_by_their_place() {
    for (text, line) in [
        ("kind: [hunter2", 1),
        ("apiVersion: v1\nkind: Secret\ndata: hunter2\n", 3),
        ("apiVersion: v1\nkind: Secret\nkind: hunter2\n", 3),
        ("kind: &a hunter2\ntype: *a\n", 2),
        ("{\"kind\":\n7}", 2),
        ("metadata: {name: 7}", 1),
        ("hunter2", 1),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        let ManifestError::Form { line: found, .. } = error else {
            panic!("{text}: {error}");
        };
        assert_eq!(found, line, "{text}");
        assert!(!format!("{error}{error:?}").contains("hunter2"));
    }
    assert_eq!(parse(b"\xff").unwrap_err(), ManifestError::NotUtf8);
    let long = vec![b' '; MAX_MANIFEST_BYTES + 1];
    assert_eq!(parse(&long).unwrap_err(), ManifestError::TooLong);
    let many = "---\nkind: x\n".repeat(MAX_OBJECTS + 1);
    assert!(parse(many.as_bytes()).is_err());
    let listed = format!("{{\"items\":[{}{{}}]}}", "{},".repeat(MAX_OBJECTS));
    assert_eq!(parse(listed.as_bytes()).unwrap_err(), ManifestError::TooManyObjects);
    let nodes = format!("{{\"kind\":\"[,:\\\",\",\"x\":[{}0]}}", "0,".repeat(200_000));
    assert!(matches!(parse(nodes.as_bytes()).unwrap_err(), ManifestError::TooManyNodes { .. }));
    let text = format!("{{\"kind\":\"{}\\\"\"}}", ",:[{".repeat(200_000));
    assert_eq!(parse(text.as_bytes()).unwrap().len(), 1);
    for deep in ["[".repeat(10_000), "{\"items\":[".repeat(10_000), "- ".repeat(10_000)] {
        assert!(parse(deep.as_bytes()).is_err());
    }
}
