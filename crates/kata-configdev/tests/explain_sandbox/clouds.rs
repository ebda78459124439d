//! The kubelet's own files of EKS, AKS and GKE with `registries = "matchImages"`. Only the names
//! without a glob were asked about, and nothing said of the cloud's private registries that their
//! images are pulled anonymously.

use serde_json::{Value, json};

use crate::command::run;
use crate::explain_sandbox::node::{Node, answer, of};

struct Cloud {
    /// The kubelet's file.
    listed: &'static str,
    plugin: &'static str,
    /// What has no glob.
    named: &'static [&'static str],
    /// The patterns of the private registries.
    patterns: &'static [&'static str],
    /// A private registry, and by which pattern the plugin is for it.
    own: &'static str,
    by: &'static str,
}

const CLOUDS: [Cloud; 3] = [
    Cloud {
        listed: include_str!("../data/kubelet/eks.json"),
        plugin: "ecr-credential-provider",
        named: &["public.ecr.aws"],
        patterns: &[
            "*.dkr.ecr.*.amazonaws.com",
            "*.dkr-ecr.*.on.aws",
            "*.dkr.ecr.*.amazonaws.com.cn",
            "*.dkr.ecr-fips.*.amazonaws.com",
        ],
        own: "123456789012.dkr.ecr.eu-central-1.amazonaws.com",
        by: "*.dkr.ecr.*.amazonaws.com",
    },
    Cloud {
        listed: include_str!("../data/kubelet/aks.yaml"),
        plugin: "acr-credential-provider",
        named: &["mcr.microsoft.com"],
        patterns: &["*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"],
        own: "team.azurecr.io",
        by: "*.azurecr.io",
    },
    Cloud {
        listed: include_str!("../data/kubelet/gke.yaml"),
        plugin: "auth-provider-gcp",
        named: &["container.cloud.google.com", "gcr.io"],
        patterns: &["*.gcr.io", "*.pkg.dev"],
        own: "europe-docker.pkg.dev",
        by: "*.pkg.dev",
    },
];

/// A node of a cloud, without a document.
fn node(cloud: &Cloud) -> Node {
    let mut node = Node::new();
    node.document = None;
    node.listed = cloud.listed.into();
    node.registries = json!(["matchImages"]).to_string();
    let script = format!("#!/bin/sh\n{}\n", answer(cloud.named[0], cloud.own));
    let program = format!("bin/{}", cloud.plugin);
    node.folder.program(&program, "755", &script);
    node
}

/// The line about the patterns but for those `without`.
fn what_to_do(cloud: &Cloud, without: &str) -> String {
    let patterns = cloud.patterns.iter().filter(|one| **one != without);
    let patterns: Vec<_> = patterns.map(|one| format!("\"{one}\"")).collect();
    format!(
        "credential provider {}: no registry is named for {}, so that their images are pulled \
        without it; name those of this node in \"registries\", beside \"matchImages\"",
        cloud.plugin,
        patterns.join(", ")
    )
}

#[test]
fn patterns_that_no_name_covers_are_said() {
    for cloud in &CLOUDS {
        let node = node(cloud);
        let line = what_to_do(cloud, "");
        let row = format!("skipped     {line}\n");
        let asked = run(&["providers", "--settings", &node.settings()]);
        asked.prints(&[&row]);
        let json = run(&["providers", "--json", "--settings", &node.settings()]).json();
        let finding = &json["findings"][0];
        let [source, text] = ["source", "text"].map(|key| finding[key].as_str().unwrap());
        assert_eq!(format!("{source}: {text}"), line);
        assert_eq!(json["findings"].as_array().unwrap().len(), 1);
        let names: Vec<_> = json["registries"].as_array().unwrap().iter().collect();
        let names: Vec<_> = names.iter().map(|one| &one["registry"]).collect();
        assert_eq!(names, cloud.named);
        node.explain(&[]).prints(&[&row]);

        // What the log of a sandbox has.
        let bundle = node.folder.text("bundle");
        let settings = node.settings();
        let attached =
            run(&["attach", "--settings", &settings, "--bundle", &bundle, "--sandbox-id", "s1"]);
        attached.ends(0);
        attached.says(&[&format!("kata-configdev: sandbox s1: warning: {line}\n")]);
    }
}

/// Of such an image was said "no entry of  matches this host", and nothing of the plugin.
#[test]
fn an_image_that_a_pattern_matches_is_explained_by_it() {
    for cloud in &CLOUDS {
        let mut node = node(cloud);
        let image = format!("{}/team/app:1", cloud.own);
        let why = format!(
            "credential provider {} is for it by \"{}\" of \"matchImages\", and is not asked, \
            because \"registries\" does not name {own}; add it there",
            cloud.plugin,
            cloud.by,
            own = cloud.own
        );
        node.explain(&[&image]).prints(&[
            "none, the pull is anonymous: no entry of what credential providers offer matches \
            this host\n",
            &format!("source      nobody\nbecause     {why}\n"),
        ]);
        let report = node.json(&[&image]);
        assert_eq!(of(&report, cloud.own)["why"], why);
        // Another image is nobody's.
        let report = node.json(&["registry.example/team/app:1"]);
        assert_eq!(report["registries"], json!([]));
        // An entry without credentials does not hide it.
        let document = format!("[registries.\"{}\"]\nca-certs = \"none\"\n", cloud.own);
        node.document = Some(node.folder.file("document.toml", document));
        let report = node.json(&[&image]);
        assert_eq!(report["registries"][0]["why"], why);

        // What it says is right.
        node.document = None;
        node.registries = json!(["matchImages", cloud.own]).to_string();
        let report = node.json(&[&image]);
        let own = of(&report, cloud.own);
        assert_eq!(own["source"]["kind"], "credential-provider", "{report}");
        let line = &report["findings"][0]["text"];
        let left = what_to_do(cloud, cloud.by);
        assert!(left.ends_with(line.as_str().unwrap()), "{line}");
        // The names alone are meant as they stand.
        node.registries = json!([cloud.own]).to_string();
        assert_eq!(node.json(&[])["findings"], Value::Array(vec![]));
    }
}

/// Without a name beside the patterns nobody can be asked.
#[test]
fn patterns_alone_ask_nobody() {
    let cloud = &CLOUDS[1];
    let mut node = node(cloud);
    node.listed = node.listed.replace("      - \"mcr.microsoft.com\"\n", "");
    let asked = run(&["providers", "--settings", &node.settings()]);
    asked.ends(69);
    asked.prints(&[&what_to_do(cloud, "")]);
}
