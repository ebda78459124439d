//! What people and programs read about the registries of a sandbox.

use serde_json::{Value, json};

use crate::explain_sandbox::node::{Node, of};

#[test]
fn people_see_who_wins_and_why() {
    let node = Node::full();
    let file = node.folder.text("document.toml");
    assert_eq!(
        node.text(""),
        format!(
            "sandbox     {}\n\
             document    {file}: the settings name it, and the pod no other\n\
             providers   asked\n\
             skipped     credential provider token: it wants a service account's token, which only \
             the kubelet has, and is not asked",
            node.folder.text("bundle")
        )
    );
    let asked = "asked       credential provider good: fresh answer, not kept: run-root is not in \
        memory or full";
    let unneeded = "asked       credential provider good: not asked, because the document has \
        credentials";
    for (registry, text) in [
        (
            "own.corp",
            format!(
                "credentials user name and password, user \"robot\"\n\
                 source      {file}:1: entry \"own.corp\"\n\
                 because     the document has credentials for it\n\
                 {unneeded}"
            ),
        ),
        (
            "a.team.corp",
            format!(
                "credentials user name and password, user \"puller\"\n\
                 source      {file}:5: entry \".Team.corp.\"\n\
                 because     the entry \".Team.corp.\" holds for it and has credentials\n\
                 {unneeded}"
            ),
        ),
        (
            ".Team.corp.",
            format!(
                "credentials user name and password, user \"puller\"\n\
                 source      {file}:5: entry \".Team.corp.\"\n\
                 because     the document has credentials for it"
            ),
        ),
        (
            "reg.lab",
            format!(
                "credentials user name and password\n\
                 source      credential provider good, fresh answer, not kept: run-root is not in \
                 memory or full\n\
                 because     the document's entry \".lab\" has no credentials; its other settings \
                 hold for the new entry too\n\
                 {asked}"
            ),
        ),
        (
            "dead.example",
            "credentials user name and password\n\
             source      credential provider good, fresh answer, not kept: run-root is not in \
             memory or full\n\
             because     the document has no entry for it"
                .to_owned(),
        ),
    ] {
        let shown = node.text(registry);
        assert!(shown.starts_with(&text), "{registry}: {shown}\nnot:\n{text}");
    }
    let dead = node.text("dead.example");
    assert!(dead.contains("asked       credential provider bad: no answer\n"), "{dead}");
    assert!(
        dead.contains(
            "\nskipped     credential provider bad: it failed with exit code 9\nskipped     \
             credential provider second: none of the keys of its answer is for it, so it adds no \
             credentials\nchange      credential provider good: with an entry of its own"
        ),
        "{dead}"
    );
    let hub = node.text("hub.corp");
    assert!(
        hub.starts_with("credentials none, the pull is anonymous\nsource      nobody\n")
            && hub.contains(
                "left out    credential provider good: the document's \
            entry \"hub.corp\" names a mirror"
            ),
        "{hub}"
    );
    let lab = node.text(".lab");
    assert!(
        lab.ends_with(
            "because     the document's entry has no credentials, and no credential \
    provider is asked about it"
        ),
        "{lab}"
    );
}

#[test]
fn programs_get_the_same_facts() {
    let node = Node::full();
    let report = node.json(&[]);
    let file = node.folder.text("document.toml");
    assert_eq!(report["document"], json!({"path": file, "chosen_by": "node"}));
    assert_eq!(report["providers"], "asked");
    assert_eq!(report["findings"][0]["source"], "credential provider token");
    assert_eq!(
        of(&report, "a.team.corp")["source"],
        json!({"kind": "document", "file": file, "line": 5, "entry": ".Team.corp."})
    );
    let reg = of(&report, "reg.example");
    assert_eq!(
        reg["source"],
        json!({"kind": "credential-provider", "name": "credential provider \
        second", "answer": {"answer": "fresh", "expires_in_secs": null}}),
        "the literal key comes before the glob"
    );
    assert_eq!(
        reg["losers"],
        json!([{"source": "credential provider good", "why": "an earlier offer says the same",
        "lost": false}])
    );
    assert_eq!(reg["credentials"], json!({"kind": "basic", "username": null}));
    assert_eq!(reg["asked"].as_array().unwrap().len(), 2);
    let hub = of(&report, "hub.corp");
    assert_eq!((&hub["source"], &hub["losers"][0]["lost"]), (&Value::Null, &json!(true)));
    let path = of(&report, "path.example");
    assert!(path["findings"][0]["text"].as_str().unwrap().contains("have a path that is no"));
    assert_eq!(path["source"]["name"], "credential provider good");
    let team = of(&report, "path.example/team");
    assert_eq!(team["source"]["name"], "credential provider path");
    let change = of(&report, "path.example")["change"].as_str().unwrap();
    assert!(change.contains("certificate authorities"), "{change}");
}

#[test]
fn what_is_left_out_for_a_list_is_shown() {
    let node = Node::full();
    let key = "io.katacontainers.config.runtime.imagepuller_registries";
    node.spec(&json!({ key: "own.corp, reg.example/app" }).to_string());
    let report = node.json(&[]);
    let only = &report["only"];
    assert_eq!(only["registries"], json!(["own.corp", "reg.example/app"]));
    assert_eq!(only["by"], json!([key]));
    let why = "no pull of the listed registries uses them";
    assert_eq!(
        only["removed"],
        json!([{"name": ".Team.corp.", "what": "credentials", "why": why}])
    );
    assert_eq!(of(&report, "own.corp")["credentials"]["username"], "robot");
    assert_eq!(of(&report, ".Team.corp.")["source"], Value::Null);
    let asked = &of(&report, "reg.example")["asked"];
    assert_eq!(asked[0]["repositories"], "app", "{asked}");
    let head = node.text("");
    for line in [
        format!("only        own.corp, reg.example/app: by the pod's annotation {key}"),
        format!("left out    credentials of \".Team.corp.\": {why}"),
    ] {
        assert!(head.lines().any(|one| one == line), "{line}: {head}");
    }
    let team = node.text(".Team.corp.");
    assert!(team.contains("because     its credentials are left out"), "{team}");

    // Without a list there is nothing to say.
    node.spec("{}");
    assert_eq!(node.json(&[])["only"], Value::Null);
    assert!(!node.text("").contains("left out"));
}
