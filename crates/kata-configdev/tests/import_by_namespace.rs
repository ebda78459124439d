//! The built command `kata-configdev import docker-config --by-namespace`: a document for each
//! namespace, with nothing of another one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use command::{Folder, Run, importer};

use crate::command;

const SECRETS: [&str; 1] = ["hunter2"];

/// A secret as controllers write it, with what `more` says beside its names.
fn secret(namespace: &str, name: &str, host: &str, more: &str) -> String {
    let config = format!(
        "{{\"auths\":{{\"{host}\":{{\"username\":\"{namespace}\",\"password\":\"hunter2\"}}}}}}"
    );
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata:\n  namespace: {namespace}\n  name: {name}\n\
         {more}type: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: '{config}'\n"
    )
}

fn export(namespace: &str, name: &str, to: &str) -> String {
    format!(
        "---\napiVersion: secretgen.carvel.dev/v1alpha1\nkind: SecretExport\nmetadata: {{namespace: \
         {namespace}, name: {name}}}\nspec: {{toNamespaces: [{to}]}}\n"
    )
}

/// Imports manifests into the folder's directory `out`.
fn import(folder: &Folder, manifests: &str, options: &[&str]) -> Run {
    let file = folder.file("secrets.yaml", manifests);
    let out = folder.text("out");
    let arguments = ["import", "docker-config", "--by-namespace", &out, &file];
    importer(&SECRETS).run(&[&arguments[..], options].concat())
}

#[test]
fn each_namespace_gets_its_own_secrets_and_those_exported_to_it() {
    let folder = Folder::with(&["out"]);
    let manifests = secret("team-a", "pull", "a.corp", "")
        + &secret("team-b", "pull", "b.corp", "")
        + &secret("shared", "pull", "shared.corp", "")
        + &export("shared", "pull", "team-b, team-c");
    let run = import(&folder, &manifests, &["--strict"]);
    run.ends(0);
    let names = ["shared", "team-a", "team-b", "team-c"];
    let listed: Vec<_> = names.map(|name| folder.text(&format!("out/{name}.toml"))).to_vec();
    assert_eq!(run.stdout, listed.join("\n") + "\n");
    for (name, hosts) in [
        ("shared", &["shared.corp"][..]),
        ("team-a", &["a.corp"]),
        ("team-b", &["b.corp", "shared.corp"]),
        ("team-c", &["shared.corp"]),
    ] {
        let path = format!("out/{name}.toml");
        let text = String::from_utf8(folder.read(&path)).unwrap();
        for host in ["a.corp", "b.corp", "shared.corp"] {
            assert_eq!(text.contains(&format!("\"{host}.\"")), hosts.contains(&host), "{text}");
        }
        assert_eq!(folder.mode(&path), 0o600);
    }
    // Again, over what is there, and as JSON.
    let json = import(&folder, &manifests, &["--json"]);
    json.ends(0);
    assert_eq!(json.json()["documents"][1]["namespace"], "team-a");
}

/// One name becomes a path: a file of another directory must not be reached.
#[test]
fn names_that_kubernetes_refuses_write_nothing() {
    for name in ["../team-b", "team.a", "Team", "-a", "a-", "\"\\0\"", &"a".repeat(64)] {
        let folder = Folder::with(&["out"]);
        let name = name.trim_matches('"');
        let manifests = secret("team-a", "pull", "a.corp", "") + &export("team-a", "pull", name);
        let run = import(&folder, &manifests, &[]);
        run.ends(65);
        assert_eq!((folder.count("out"), folder.path("team-b.toml").exists()), (0, false));
    }
}

#[test]
fn one_broken_secret_writes_nothing_if_strict() {
    let good = secret("team-a", "pull", "a.corp", "");
    let broken = secret("team-b", "pull", "b.corp", "").replace("{\"auths\"", "{auths");
    let helper = secret("team-b", "pull", "b.corp", "")
        .replace("{\"auths\"", "{\"HttpHeaders\":{\"X-Team\":\"hunter2\"},\"auths\"");
    for (manifests, options, expected) in [
        (good.clone() + &broken, &["--strict"][..], "error: for team-b: "),
        (broken.clone(), &[], "error: for team-b: "),
        (good + &helper, &["--strict"], "HttpHeaders: left out: the image puller sends no headers"),
        ("{\"auths\":{}}".to_owned(), &[], "no manifest of a secret"),
        (String::new(), &[], "nothing is in it"),
    ] {
        let folder = Folder::with(&["out"]);
        let run = import(&folder, &manifests, options);
        run.fails(65, &[expected]);
        assert_eq!(folder.count("out"), 0);
    }
    let folder = Folder::new();
    let missing = import(&folder, &secret("a", "pull", "a.corp", ""), &[]);
    // The directory is what is missing, not the document in it.
    missing.fails(69, &["/out: No such file or directory (os error 2): create it"]);
    let two = import(&folder, "", &["--into", "x"]);
    two.ends(64);
}

/// The mistake of one tenant does not stop the others, and does not take its own document away.
#[test]
fn one_broken_secret_drops_the_document_of_its_namespace_only() {
    let good = secret("team-a", "pull", "a.corp", "") + &secret("team-c", "pull", "c.corp", "");
    let broken = secret("team-b", "pull", "b.corp", "");
    let (start, _) = broken.split_once('\'').unwrap();
    let broken = format!("{start}'{{\"auths\":5}}'\n");
    let folder = Folder::with(&["out"]);
    let old = folder.file("out/team-b.toml", "# old\n");
    let run = import(&folder, &(good + &broken), &[]);
    run.ends(65);
    run.says(&["error: for team-b: "]);
    let listed = ["team-a", "team-c"].map(|name| folder.text(&format!("out/{name}.toml")));
    assert_eq!(run.stdout, listed.join("\n") + "\n");
    assert_eq!(std::fs::read_to_string(old).unwrap(), "# old\n");
    assert_eq!(folder.count("out"), 3);
}

/// What their controllers leave in the cluster: labels, owners and annotations of theirs, and an
/// ordinary secret.
#[test]
fn outputs_of_external_secrets_and_sealed_secrets_are_secrets() {
    let external = "  labels: {reconcile.external-secrets.io/managed: \"true\"}\n  annotations: \
        {reconcile.external-secrets.io/data-hash: 0a1b}\n  ownerReferences:\n  - apiVersion: \
        external-secrets.io/v1\n    kind: ExternalSecret\n    name: pull\nimmutable: false\n";
    let sealed = "  ownerReferences:\n  - apiVersion: bitnami.com/v1alpha1\n    kind: \
        SealedSecret\n    name: pull\n    controller: true\n";
    let folder = Folder::with(&["out"]);
    let manifests =
        secret("team-a", "pull", "a.corp", external) + &secret("team-b", "pull", "b.corp", sealed);
    import(&folder, &manifests, &["--strict"]).ends(0);
    assert_eq!(folder.count("out"), 2);
    // What they are made of is no secret that anybody here could read.
    let sources =
        "---\napiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: x}\n";
    let run = import(&folder, sources, &[]);
    run.fails(65, &["SealedSecret: an object of another kind"]);
}
