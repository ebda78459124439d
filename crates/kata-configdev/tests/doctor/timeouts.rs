//! What ends a pull stands in many places.

use std::collections::BTreeSet;
use std::path::Path;

use crate::doctor::doctor;
use crate::doctor::node::{KUBELET, MAIN, Node, SETTINGS};

/// The time-outs stand in five files and have defaults in five programs.
#[test]
fn all_time_outs_are_in_one_table() {
    let node = Node::new();
    node.edit(MAIN, "procs=none", "procs=none agent.image_pull_timeout=900");
    node.put("etc/default/kubelet", "KUBELET_EXTRA_ARGS=--runtime-request-timeout=30m\n");
    let json = doctor(&node, &["--json"]).succeeds().json();
    let rows = json["timeouts"].as_array().unwrap().iter();
    let rows: Vec<_> = rows
        .map(|row| {
            let path = row["path"].as_str().unwrap_or("built in");
            let file = path.rsplit('/').next().unwrap();
            let key = row["key"].as_str().unwrap();
            format!("{key} {} {file}:{}", row["seconds"], row["line"])
        })
        .collect();
    assert_eq!(
        rows,
        [
            "runtimeRequestTimeout 1800.0 kubelet:0",
            "--stall-timeout 30.0 built in:0",
            "--linger 300.0 built in:0",
            "create_container_timeout 600.0 configuration-qemu-snp.toml:7",
            "dial_timeout 90.0 configuration-qemu-snp.toml:5",
            "agent.image_pull_timeout 900.0 configuration-qemu-snp.toml:3",
        ]
    );
    let rust = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n\
        [agent.kata]\ncreate_container_timeout = 120\n\
        [runtime]\nhypervisor_name = \"qemu\"\n";
    node.put(MAIN, rust);
    let crio = "[crio.runtime.runtimes.kata]\nruntime_pull_image = true\n\
        container_create_timeout = 100\nruntime_config_path = \"/opt/kata/share/defaults/\
        kata-containers/runtimes/qemu-snp/configuration-qemu-snp.toml\"\n";
    node.put("etc/crio/crio.conf.d/99-kata.conf", crio);
    let run = doctor(&node, &[]);
    run.ends(0).prints(&[
        " 120 s  runtime-rs   create_container_timeout ",
        "   3 s  runtime-rs   reconnect_timeout_ms       built in: ",
        "  30 s  runtime-rs   request_timeout_ms ",
        "0.01 s  runtime-rs   dial_timeout_ms ",
        "warning timeout-pull-first: container_create_timeout of CRI-O is 100 s ",
        "  50 s  runtime-rs   wait for QEMU's monitor    built in: ",
    ]);
    assert!(!run.stdout.contains("deadline-secs"), "{}", run.stdout);
    let asking = "[credential-providers]\nregistries = [\"a.corp\"]\n";
    node.append(SETTINGS, asking);
    doctor(&node, &[])
        .prints(&["   5 s  wrapper      credential-providers.deadline-secs built in: "]);
    node.append(SETTINGS, "deadline-secs = 20\n");
    doctor(&node, &[]).prints(&[
        "  20 s  wrapper      credential-providers.deadline-secs /etc/kata-configdev/config.toml:7: ",
    ]);
}

/// What is built in is said once by doctor, and once by docs/timeouts.md.
#[test]
fn the_page_has_every_built_in_time() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/timeouts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let qemu = "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu-system-x86_64\"\n";
    let go = format!("{qemu}[agent.kata]\n[runtime]\n");
    let rust = format!("{go}hypervisor_name = \"qemu\"\n");
    let crio = format!("[crio.runtime.runtimes.kata]\nruntime_config_path = \"/{MAIN}\"\n");
    let mut keys = BTreeSet::new();
    for main in [go, rust] {
        let node = Node::new();
        node.remove(KUBELET);
        node.put(MAIN, &main);
        node.put("etc/crio/crio.conf.d/99-kata.conf", &crio);
        let json = doctor(&node, &["--json"]).json();
        for row in json["timeouts"].as_array().unwrap() {
            assert!(row["path"].is_null(), "{row}");
            let key = row["key"].as_str().unwrap();
            let words = [
                row["who"].as_str().unwrap().to_owned(),
                format!("`{key}`"),
                format!("| {} s |", row["seconds"].as_f64().unwrap()),
            ];
            let is_there =
                page.lines().any(|line| words.iter().all(|word| line.contains(word.as_str())));
            assert!(is_there, "{words:?}");
            keys.insert(key.to_owned());
        }
    }
    assert_eq!(keys.len(), 11, "{keys:?}");
}

/// The kubelet's time-out stands where the node's installer put it.
#[test]
fn the_kubelets_time_out_is_found_by_every_way_in() {
    let flag = "[Service]\nExecStart=/usr/bin/kubelet --config=/etc/own.yaml \\\n";
    for (files, secs) in [
        (&[][..], 120.0),
        (&[("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: 3m\n")], 180.0),
        (
            &[
                ("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: 3m\n"),
                ("usr/lib/systemd/system/kubelet.service", flag),
                ("etc/own.yaml", "runtimeRequestTimeout: 4m\n"),
            ],
            240.0,
        ),
        (
            &[
                ("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: 3m\n"),
                (
                    "etc/systemd/system/kubelet.service.d/20-own.conf",
                    "[Service]\nEnvironment=\"X=--runtime-request-timeout=5m\"\n",
                ),
            ],
            300.0,
        ),
        (
            &[("etc/rancher/k3s/config.yaml", "kubelet-arg:\n- \"runtime-request-timeout=6m\"\n")],
            360.0,
        ),
        // EKS of Amazon Linux 2023.
        (
            &[
                ("etc/kubernetes/kubelet/config.json", "{}"),
                (
                    "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf",
                    "{\"runtimeRequestTimeout\": \"7m\"}",
                ),
                (
                    "etc/kubernetes/kubelet/config.json.d/50-own.json",
                    "{\"runtimeRequestTimeout\": \"1m\"}",
                ),
            ],
            420.0,
        ),
        // The kubelet's credentials were taken for its configuration.
        (
            &[
                (
                    "var/lib/kubelet/config.json",
                    "{\"auths\":{\"a.corp\":{\"auth\":\"cm9ib3Q6aHVudGVyMg==\"}}}",
                ),
                (
                    "etc/kubernetes/kubelet/config.json",
                    "{\"kind\":\"KubeletConfiguration\",\"runtimeRequestTimeout\":\"20m\"}",
                ),
            ],
            1200.0,
        ),
        (
            &[
                (
                    "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf",
                    "runtimeRequestTimeout: 2m\n",
                ),
                (
                    "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/10-own.conf",
                    "runtimeRequestTimeout: 8m\n",
                ),
            ],
            480.0,
        ),
        (
            &[
                ("var/lib/kubelet/config.yaml", "runtimeRequestTimeout: soon\n"),
                ("etc/default/kubelet", "KUBELET_EXTRA_ARGS=--config-dir=/etc/own.d\n"),
                ("etc/own.d/1.conf", "runtimeRequestTimeout: 9m\n"),
            ],
            540.0,
        ),
    ] {
        let node = Node::new();
        node.remove(KUBELET);
        for (name, text) in files {
            node.put(name, text);
        }
        let json = doctor(&node, &["--json"]).json();
        assert_eq!(json["timeouts"][0]["seconds"], secs, "{files:?}");
    }
}

/// Two minutes were said of a kubelet whose configuration had not been understood.
#[test]
fn what_is_not_known_of_the_kubelet_is_not_compared() {
    let node = Node::new();
    node.put(KUBELET, "runtimeRequestTimeout: soon\n");
    let run = doctor(&node, &["--json"]);
    let json = run.ends(0).json();
    let rows = json["timeouts"].as_array().unwrap().iter();
    assert!(rows.clone().count() > 3 && rows.clone().all(|row| row["who"] != "kubelet"));
    let mut findings = json["findings"].as_array().unwrap().iter();
    assert!(findings.all(|finding| finding["id"] != "timeout-kubelet-first"));
}
