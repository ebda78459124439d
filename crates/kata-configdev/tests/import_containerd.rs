//! The built command `kata-configdev import` with what containerd's own configuration and unit say:
//! below `--root`, from a pipe, and from the environment.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use command::{Folder, Run, importer, skip};
use serde_json::Value;

use crate::command;

/// What the secrets of all inputs contain, plain and in base64.
const SECRETS: [&str; 2] = ["hunter2", "aHVudGVyMi"];

/// Runs an import with a node's file system as root.
fn import(node: &Folder, arguments: &[&str]) -> Run {
    let root = node.text("");
    let arguments = [&["import", arguments[0], "--root", &root], &arguments[1..]].concat();
    importer(&SECRETS).run(&arguments)
}

const CONFIG: &str = "/etc/containerd/config.toml";

#[test]
fn containerds_configuration_becomes_a_document() {
    let node = Folder::new();
    node.file(
        "etc/containerd/config.toml",
        "version = 2\nimports = [\"conf.d/*.toml\"]\n\
         [plugins.\"io.containerd.grpc.v1.cri\".registry]\n\
         config_path = \"/etc/containerd/certs.d:/etc/docker/certs.d\"\n",
    );
    node.file(
        "etc/containerd/conf.d/.auth.toml",
        "version = 3\n[plugins.\"io.containerd.cri.v1.images\".registry.configs.\"reg.corp:5000\"]\n\
         auth = {username = \"robot\", password = \"hunter2\"}\n",
    );
    node.file(
        "etc/containerd/certs.d/reg.corp_5000_/hosts.toml",
        "[host.\"https://mirror.corp\"]\n",
    );
    let run = import(&node, &["containerd-config", "--strict", CONFIG]);
    run.ends(0);
    assert_eq!(
        run.stdout,
        "[registries.\"mirror.corp\"]\n\n[registries.\"reg.corp:5000\"]\nusername = \"robot\"\npassword = \"hunter2\"\n\
         mirror = \"https://mirror.corp\"\nmirror-fallback = true\n"
    );
    // Relative to the root, and the same through a pipe but for what is imported.
    let relative = import(&node, &["containerd-config", "etc/containerd/config.toml"]);
    assert_eq!(relative.stdout, run.stdout);
    let text = std::fs::read_to_string(node.path("etc/containerd/config.toml")).unwrap();
    let root = node.text("");
    let arguments = ["import", "containerd-config", "--root", &root, "--json", "-"];
    let piped = importer(&SECRETS).run_with(&arguments, text.as_bytes());
    let report: Value = serde_json::from_str(&piped.stdout).unwrap();
    assert!(!report["document"].as_str().unwrap().contains("robot"));
    assert_eq!(report["findings"][0]["key"], "imports");
    assert_eq!(report["findings"][0]["loss"], "lost");
    // What containerd would not start with.
    node.file("etc/containerd/conf.d/b.toml", "version = \"hunter2\"\n");
    import(&node, &["containerd-config", CONFIG])
        .fails(65, &["error: /etc/containerd/conf.d/b.toml: version: expected integer"]);
    node.file("etc/containerd/config.toml", "imports = [\"missing.toml\"]\n");
    import(&node, &["containerd-config", CONFIG])
        .fails(65, &["error: /etc/containerd/missing.toml: it is not there"]);
}

const UNIT: &str = "[Unit]\nAfter=network.target\n[Service]\nExecStart=/usr/bin/containerd\n\
    Environment=HTTPS_PROXY=http://first.corp\n";

/// A mirror over plain HTTP whose host has `insecure_skip_verify`, as many guides write it. It was
/// left out once, and guests asked the registry itself.
#[test]
fn an_insecure_mirror_over_plain_http_is_kept() {
    let node = Folder::new();
    let with = |auth: &str| {
        format!(
            "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\n\
             mirrors.\"docker.io\".endpoint = [\"http://m.corp:5000\"]\n\
             configs.\"m.corp:5000\".tls.insecure_skip_verify = true\n{auth}"
        )
    };
    node.file("etc/containerd/config.toml", with(""));
    let run = import(&node, &["containerd-config", "--strict", CONFIG]);
    run.ends(0);
    run.prints(&[
        "mirror = \"http://m.corp:5000\"\n",
        "[registries.\"m.corp:5000\"]\ninsecure-skip-verify = true\n",
    ]);
    let document = node.file("document.toml", run.stdout);
    importer(&SECRETS).run(&["check", &document]).ends(0);
    // The guest would not tell a password to a host without TLS.
    let auth = "configs.\"m.corp:5000\".auth = {username = \"a\", password = \"hunter2\"}\n";
    node.file("etc/containerd/config.toml", with(auth));
    let run = import(&node, &["containerd-config", CONFIG]);
    run.says(&["left out: it is asked over plain HTTP"]);
}

#[test]
fn a_units_proxies_become_a_document() {
    let node = Folder::new();
    node.file("usr/lib/systemd/system/containerd.service", UNIT);
    // Of one name the first directory's counts, and names decide the order of all.
    node.file(
        "usr/lib/systemd/system/containerd.service.d/50-proxy.conf",
        "[Service]\nEnvironment=HTTPS_PROXY=http://hidden.corp\n",
    );
    node.file(
        "etc/systemd/system/containerd.service.d/50-proxy.conf",
        "[Service]\nEnvironment=\"HTTPS_PROXY=http://robot:hunter2%%40@proxy.corp:3128\" \\\n  \
         'no_proxy=.corp,10.0.0.0/8'\nEnvironmentFile=-/etc/default/%N\n",
    );
    node.file(
        "etc/systemd/system/service.d/10-all.conf",
        "[Service]\nEnvironment=HTTP_PROXY=http://all.corp\nUnsetEnvironment=http_proxy\n",
    );
    let import = |arguments: &[&str]| {
        let unit = ["proxy-environment", "--unit", "containerd.service"];
        import(&node, &[&unit[..], arguments].concat())
    };
    let run = import(&["--strict"]);
    run.ends(0);
    assert_eq!(
        run.stdout,
        "[extra-env]\nHTTP_PROXY = \"http://all.corp\"\n\
         HTTPS_PROXY = \"http://robot:hunter2%40@proxy.corp:3128\"\n\
         NO_PROXY = \".corp,10.0.0.0/8\"\n"
    );
    // A file of variables wins over the unit's own.
    node.file("etc/default/containerd", "# proxies\nHTTPS_PROXY='http://file.corp' \n");
    assert!(import(&[]).stdout.contains("HTTPS_PROXY = \"http://file.corp\""));
    // What cannot be said, without its value.
    node.file(
        "etc/default/containerd",
        "HTTPS_PROXY=http://127.0.0.1:3128\nHTTP_PROXY=ftp://robot:hunter2@x\n",
    );
    let run = import(&[]);
    run.ends(0);
    run.says(&[
        "warning: containerd.service: HTTP_PROXY: left out",
        "warning: containerd.service: HTTPS_PROXY: left out: the proxy listens on the node's loop",
    ]);
    import(&["--strict"]).fails(65, &["error: containerd.service: HTTP_PROXY"]);
    // What systemd would not start.
    node.file(
        "etc/systemd/system/containerd.service.d/60.conf",
        "[Service]\nEnvironmentFile=/etc/missing\n",
    );
    import(&[]).fails(65, &["error: /etc/missing: it is not there, and systemd would not start"]);
}

#[test]
fn units_that_are_masked_missing_or_k3s() {
    let node = Folder::new();
    node.file("usr/lib/systemd/system/k3s-agent.service", UNIT);
    node.file(
        "etc/systemd/system/k3s-.service.d/x.conf",
        "[Service]\nEnvironment=CONTAINERD_HTTPS_PROXY=http://own.corp\n",
    );
    let unit = |name| import(&node, &["proxy-environment", "--unit", name]);
    assert_eq!(unit("k3s-agent").stdout, "[extra-env]\nHTTPS_PROXY = \"http://own.corp\"\n");
    let other = unit("other");
    other.fails(65, &["error: other.service: no such unit in /etc/systemd/system, "]);
    other.says(&["--root names the place"]);
    std::os::unix::fs::symlink("/dev/null", node.path("etc/systemd/system/k3s-agent.service"))
        .unwrap();
    node.file("etc/systemd/system/k3s-.service.d/x.conf", "");
    let masked = unit("k3s-agent");
    masked.fails(
        65,
        &[
            "note: /etc/systemd/system/k3s-agent.service: is masked",
            "note: k3s-agent.service: sets none of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper \
             or lower case, with CONTAINERD_ in front or without",
            "nothing is in it",
        ],
    );
    // A percent sign that is not written twice; of a variable that nobody asked for nothing is said.
    let environment = "[Service]\nEnvironment=FOO=x HTTP_PROXY=http://robot:hunter2%40@p.corp\n";
    node.file("etc/systemd/system/k3s-.service.d/x.conf", environment);
    let masked = unit("k3s-agent");
    masked.says(&["x.conf: Environment: HTTP_PROXY: left out: what a percent sign stands for"]);
    for wrong in ["../x", "a@b", ""] {
        unit(wrong).ends(64);
    }
}

#[test]
fn the_own_environment_becomes_a_document() {
    let program = env!("CARGO_BIN_EXE_kata-configdev");
    for (variables, expected) in [
        (
            &[("HTTPS_PROXY", "proxy.corp:3128"), ("https_proxy", "http://other.corp")][..],
            "[extra-env]\nHTTPS_PROXY = \"proxy.corp:3128\"\n",
        ),
        (
            &[("HTTPS_PROXY", ""), ("https_proxy", "http://a:hunter2@b.corp"), ("NO_PROXY", "*")],
            "[extra-env]\nHTTPS_PROXY = \"http://a:hunter2@b.corp\"\nNO_PROXY = \"*\"\n",
        ),
    ] {
        let mut command = std::process::Command::new(program);
        command.env_clear().envs(variables.iter().copied());
        let output = command.args(["import", "proxy-environment", "--from-env"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        assert!(!String::from_utf8(output.stderr).unwrap().contains("hunter2"));
        assert_eq!(output.status.code(), Some(0));
    }
    for arguments in [&[][..], &["--from-env", "--unit", "x"], &["--from-env", "--root", "/"]] {
        let arguments = [&["import", "proxy-environment"], arguments].concat();
        importer(&SECRETS).run(&arguments).ends(64);
    }
}

/// What systemd itself makes of a unit's files, by its own dump of a unit that it verifies.
fn systemds(root: &str) -> Option<Vec<String>> {
    let mut command = std::process::Command::new("systemd-analyze");
    command.env("SYSTEMD_LOG_LEVEL", "debug").args(["--man=no", "--root", root]);
    let output = command.args(["verify", "a-b.service"]).output().ok()?;
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    let lines = told.lines().filter_map(|line| line.trim().strip_prefix("Environment: "));
    Some(lines.map(str::to_owned).collect())
}

#[test]
fn a_units_environment_is_what_systemd_says() {
    for (unit, drop_ins) in [
        (
            r#"Environment="HTTP_PROXY=http://a b" HTTPS_PROXY=http://\x41%%40 'NO_PROXY=\"q'"#,
            &[("etc/systemd/system/a-b.service.d/50-x.conf", "https_proxy=")][..],
        ),
        // Of one name the unit's own directory counts; names order what is left.
        (
            "Environment=HTTP_PROXY=http://unit HTTPS_PROXY=http://p%40ss@unit",
            &[
                ("usr/lib/systemd/system/a-b.service.d/50-x.conf", "NO_PROXY=a"),
                ("etc/systemd/system/a-b.service.d/50-x.conf", "NO_PROXY=b"),
                ("etc/systemd/system/a-.service.d/50-x.conf", "HTTP_PROXY=http://hidden"),
                ("etc/systemd/system/a-.service.d/40-y.conf", "NO_PROXY=c"),
                ("run/systemd/system/service.d/60-z.conf", "HTTP_PROXY=http://z \\\n NO_PROXY=%N"),
            ],
        ),
        ("Environment=HTTP_PROXY=http://a 'NO_PROXY=b", &[]),
        (
            "Environment=HTTP_PROXY=http://a\n Environment = \n#\\\nEnvironment=NO_PROXY=\\\n;x\n b",
            &[],
        ),
    ] {
        let node = Folder::with(&["run", "tmp"]);
        let unit = format!("[Service]\nType=oneshot\nExecStart=/bin/true\n{unit}\n");
        node.file("usr/lib/systemd/system/a-b.service", &unit);
        for (path, assignment) in drop_ins {
            node.file(path, format!("[Service]\nEnvironment={assignment}\n"));
        }
        let Some(expected) = systemds(&node.text("")) else {
            return skip("systemd-analyze is not there");
        };
        assert!(!expected.is_empty(), "systemd read nothing of {unit}");
        let arguments = ["proxy-environment", "--allow-empty", "--json", "--unit", "a-b"];
        let run = import(&node, &arguments);
        let report: Value = run.json();
        let document = report["document"].as_str().unwrap();
        // What a document cannot hold is left out of it, and named.
        let left_out = report["findings"].as_array().unwrap().iter();
        let left_out: Vec<_> = left_out.filter_map(|finding| finding["key"].as_str()).collect();
        for line in &expected {
            let (name, value) = line.split_once('=').unwrap();
            let is_said = document.contains(&format!("{} = {value:?}\n", name.to_uppercase()));
            let is_absent = value.is_empty() || left_out.contains(&name);
            assert!(is_said || is_absent, "{line} in {document} of {unit}");
        }
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
            let is_expected = expected.iter().any(|line| line.starts_with(&format!("{name}=")));
            assert!(is_expected || !document.contains(&format!("{name} = ")), "{document}");
        }
    }
}
