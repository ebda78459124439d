#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use super::*;
use crate::secret_manifest::parse;

fn secret(name: &str, json: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap();
    let json = json.replace('\'', "''");
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{namespace: {namespace}, name: {name}}}\n\
         type: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: '{json}'\n"
    )
}

fn export(name: &str, to: &str, weight: Option<&str>) -> String {
    let (namespace, name) = name.split_once('/').unwrap();
    let annotation =
        weight.map_or(String::new(), |weight| format!(", annotations: {{{WEIGHT}: \"{weight}\"}}"));
    format!(
        "---\napiVersion: secretgen.carvel.dev/v1alpha1\nkind: SecretExport\n\
         metadata: {{namespace: {namespace}, name: {name}{annotation}}}\nspec: {to}\n"
    )
}

fn user(name: &str) -> String {
    format!("{{\"auths\":{{\"r.io\":{{\"username\":\"{name}\"}}}}}}")
}

fn combined(manifests: &str, namespace: &str) -> String {
    let objects = parse(manifests.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let combined = combine(&objects, namespace).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8(combined.json.to_vec()).unwrap()
}

#[test]
fn the_result_is_what_the_controller_writes() {
    assert_eq!(combined("", "dst"), "{\"auths\":{}}");
    let json = "{\"auths\":{\"z.io\":{\"auth\":\"a\",\"email\":\"e\",\"identitytoken\":\"t\"},\
        \"https://a.io/<&>\":{\"username\":\"u\\u0001\\b\\f\\n\\u2028\\u007fé\",\
        \"password\":\"p\\\"\\\\/\"}},\"credsStore\":\"x\"}";
    let manifests = secret("ns/one", json)
        + &export("ns/one", "{toNamespaces: [dst]}", None)
        + &secret("ns/two", "{}")
        + &export("ns/two", "{toNamespace: \"*\"}", None);
    assert_eq!(
        combined(&manifests, "dst"),
        "{\"auths\":{\"https://a.io/\\u003c\\u0026\\u003e\":\
         {\"username\":\"u\\u0001\\b\\f\\n\\u2028\u{7f}é\",\
         \"password\":\"p\\\"\\\\/\",\"auth\":\"\"},\
         \"z.io\":{\"username\":\"\",\"password\":\"\",\"auth\":\"a\"}}}"
    );
    // Keys are compared as they are written.
    let manifests =
        secret("ns/one", "{\"auths\":{\"docker.io\":{},\"https://index.docker.io/v1/\":{}}}")
            + &export("ns/one", "{toNamespace: dst}", None);
    assert_eq!(combined(&manifests, "dst").matches("docker.io").count(), 2);
}

/// Each secret beats the one before it, for one more reason.
#[test]
fn the_last_in_the_order_wins() {
    let candidates = [
        ("a/x", "{toNamespace: \"*\"}", Some("-1")),
        ("a/a", "{toNamespace: \"*\"}", None),
        ("a/b", "{toNamespace: \"*\"}", Some("not a number")),
        ("b/a", "{toNamespace: \"*\"}", Some("1e999")),
        ("a/c", "{toNamespaces: [x, dst]}", None),
        ("dst/a", "{toNamespace: \"*\"}", Some("0.0")),
        ("dst/b", "{toNamespaces: [dst, \"*\"]}", Some("-0")),
        ("a/w", "{toNamespace: \"*\"}", Some("0.5")),
        ("a/z", "{toNamespace: \"*\"}", Some("1e1")),
        ("a/d", "{toNamespace: \"*\"}", Some("inf")),
    ];
    let manifest = |&(name, to, weight): &(&str, &str, Option<&str>)| {
        secret(name, &user(name)) + &export(name, to, weight)
    };
    for count in 1..=candidates.len() {
        let mut manifests: Vec<_> = candidates[..count].iter().map(manifest).collect();
        let expected = format!("\"username\":\"{}\"", candidates[count - 1].0);
        let forwards = combined(&manifests.concat(), "dst");
        assert!(forwards.contains(&expected), "{forwards}");
        manifests.reverse();
        assert_eq!(combined(&manifests.concat(), "dst"), forwards);
    }
}

#[test]
fn only_exported_secrets_of_the_type_take_part() {
    let nothing = "{\"auths\":{}}";
    let one = secret("ns/one", &user("one"));
    assert_eq!(combined(&one, "ns"), nothing);
    for to in ["{}", "{toNamespace: other}", "{toNamespaces: []}"] {
        assert_eq!(combined(&(one.clone() + &export("ns/one", to, None)), "ns"), nothing);
    }
    let everyone = export("ns/one", "{toNamespace: \"*\"}", None);
    assert_ne!(combined(&(one.clone() + &everyone), "dst"), nothing);
    assert_eq!(
        combined(&(one.replace("dockerconfigjson\ns", "dockercfg\ns") + &everyone), "dst"),
        nothing
    );
    assert_eq!(
        combined(&(one.clone() + &everyone.replace("name: one", "name: two")), "dst"),
        nothing
    );
    let old = everyone.replace("secretgen.carvel.dev/v1alpha1", "secretgen.k14s.io/v1alpha1");
    assert_eq!(combined(&(one.clone() + &old), "dst"), nothing);
    let closed = "---\napiVersion: v1\nkind: Namespace\nmetadata: \
    {name: dst, annotations: {secretgen.carvel.dev/excluded-from-wildcard-matching: \"\"}}\n";
    assert_eq!(combined(&(one.clone() + &everyone + closed), "dst"), nothing);
    let named = export("ns/one", "{toNamespaces: [dst]}", None);
    assert_ne!(combined(&(one + &named + closed), "dst"), nothing);
}

#[test]
fn selectors_are_conditions_that_hold_together() {
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: \
    {name: dst, labels: {team: a}, annotations: {x.y/z: b}}\n";
    let with = |selectors: &str| {
        secret("ns/one", &user("one"))
            + &export("ns/one", &format!("{{dangerousToNamespacesSelector: [{selectors}]}}"), None)
    };
    for (selectors, holds) in [
        ("{key: metadata.name, operator: In, values: [x, dst]}", true),
        ("{key: metadata.labels.team, operator: Exists}", true),
        ("{key: \"metadata.annotations['x.y/z']\", operator: In, values: [b]}", true),
        ("{key: 'metadata.annotations.x\\.y/z', operator: NotIn, values: [b]}", false),
        ("{key: metadata.labels.no, operator: DoesNotExist}", true),
        ("{key: metadata.labels.no, operator: NotIn, values: [a]}", true),
        (
            "{key: metadata.name, operator: Exists}, {key: metadata.labels.no, operator: Exists}",
            false,
        ),
    ] {
        let json = combined(&(with(selectors) + namespace), "dst");
        assert_eq!(json.contains("one"), holds, "{selectors}");
    }
    for manifests in [
        with("{key: metadata.name, operator: Exists}"),
        with("{key: spec.finalizers, operator: Exists}") + namespace,
        with("{key: \"metadata.labels.*\", operator: Exists}") + namespace,
        with("{key: metadata.name, operator: Maybe}") + namespace,
    ] {
        let error = combine(&parse(manifests.as_bytes()).unwrap(), "dst").unwrap_err();
        assert!(matches!(error, CombineError::Selector { .. }), "{error}");
    }
}

/// The controller then leaves the placeholder alone.
#[test]
fn one_secret_that_cannot_be_read_spoils_all() {
    for (json, word) in
        [("", "has no"), ("hunter2", "JSON"), ("{\"auths\":{\"a\":\"hunter2\"}}", "type")]
    {
        let manifests = secret("ns/a", &user("a"))
            + &export("ns/a", "{toNamespace: dst}", None)
            + &secret("ns/bad", json)
            + &export("ns/bad", "{toNamespace: dst}", None);
        let error = combine(&parse(manifests.as_bytes()).unwrap(), "dst").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("ns/bad") && error.contains(word), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn placeholders_are_found() {
    let one = secret("a/one", "{}");
    let annotated = one.replace(
        "name: one}",
        "name: one, annotations: {secretgen.carvel.dev/image-pull-secret: \"\"}}",
    );
    let manifests = one.replace("namespace: a", "namespace: b") + &annotated;
    let objects = parse(manifests.as_bytes()).unwrap();
    assert_eq!(placeholder_namespaces(&objects).into_iter().collect::<Vec<_>>(), ["a"]);
}

fn imported(files: &[(&str, &str)], destination: Option<&str>) -> Imported {
    let files: Vec<_> =
        files.iter().map(|(name, text)| SourceFile { name, text: text.as_bytes() }).collect();
    import(&files, destination, crate::docker_config::Widening::Refused)
}

#[test]
fn files_of_all_kinds_are_told_apart() {
    let entry = "{\"username\":\"u\",\"password\":\"hunter2\"}";
    let offered = imported(
        &[
            ("empty", " \n"),
            ("config.json", &format!("{{\"auths\":{{\"a.io\":{entry}}}}}")),
            (".dockercfg", &format!("\u{feff}{{\"b.io\":{entry}}}")),
            ("x.yaml", &secret("ns/x", &format!("{{\"auths\":{{\"c.io\":{entry}}}}}"))),
            ("y.json", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"a\":\"b\"}}"),
        ],
        None,
    );
    let names: Vec<_> =
        offered.offers.iter().map(|offer| (offer.name.as_str(), offer.source.as_str())).collect();
    assert_eq!(
        names,
        [("a.io.", "config.json"), ("b.io.", ".dockercfg"), ("c.io.", "x.yaml: secret ns/x")]
    );
    assert_eq!(offered.findings.len(), 2);
    assert!(offered.faults.is_empty());
    let bad = imported(
        &[
            ("a", "{\"hunter2"),
            ("b", "hunter2: ["),
            ("c", "{\"auths\":[\"hunter2\"]}"),
            ("d", &secret("ns/d", "hunter2")),
        ],
        None,
    );
    assert_eq!((bad.faults.len(), bad.unread.len()), (3, 1));
    assert!(!format!("{bad:?}").contains("hunter2"));
}

#[test]
fn inputs_count_in_the_controllers_order() {
    let config = |name: &str| {
        format!("{{\"auths\":{{\"r.io\":{{\"username\":\"{name}\",\"password\":\"p\"}}}}}}")
    };
    let winner = |files: &[(&str, &str)], destination| {
        let imported = imported(files, destination);
        // The others are tried after it.
        assert!(imported.offers.len() > 1);
        imported.offers[0].source.clone()
    };
    let [a, b] = [secret("ns/a", &config("a")), secret("dst/b", &config("b"))];
    // Files without a rank of their own: the later one. Secrets beat them by their name, and each
    // other.
    assert_eq!(winner(&[("2", &config("x")), ("1", &config("y"))], None), "1");
    assert_eq!(winner(&[("s", &a), ("1", &config("y"))], None), "s: secret ns/a");
    assert_eq!(winner(&[("s", &a), ("t", &b)], None), "s: secret ns/a");
    assert_eq!(winner(&[("s", &a), ("t", &b)], Some("dst")), "t: secret dst/b");
    // The export is in a file of its own.
    let heavy = export("ns/a", "{toNamespace: \"*\"}", Some("1"));
    let light = export("ns/a", "{toNamespace: \"*\"}", Some("-1"));
    assert_eq!(winner(&[("e", &heavy), ("s", &a), ("t", &b)], Some("dst")), "s: secret ns/a");
    assert_eq!(winner(&[("e", &light), ("s", &a), ("1", &config("y"))], None), "1");
}
