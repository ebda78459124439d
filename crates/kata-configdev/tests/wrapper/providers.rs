//! Credential providers of the node: what they add to the document, and that nothing they do keeps
//! QEMU from starting.

mod leavings;
mod scopes;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::Output;

use config_image::Magic;
use registry_config::{Credentials, Document, Match, RegistryHost};

use crate::wrapper::node::{Node, PASSWORD};
use crate::wrapper::process::{WAITING_PROGRAM, Waiting};

/// What plugins know and nobody may see.
const SECRET: &str = "hunter2-plugin";

const SANDBOX: [&str; 4] = ["-name", "sandbox-0123", "-machine", "q35"];

/// A node with plugins, whose QEMU waits to be looked at.
struct Plugins {
    node: Node,
    config: String,
    deadline: u32,
    document: Option<PathBuf>,
    run_root: PathBuf,
    /// The list in the settings.
    registries: &'static str,
    /// More settings.
    more: String,
}

impl Plugins {
    fn new() -> Self {
        let node = Node::new("/bin/true");
        node.program("qemu", "700", WAITING_PROGRAM);
        std::fs::create_dir(node.path("bin")).unwrap();
        let config =
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n";
        Self {
            document: Some(node.path("document.toml")),
            // On a disk, where nothing is kept.
            run_root: node.path("."),
            node,
            config: config.into(),
            deadline: 50,
            registries: r#"["matchImages", "reg.corp", "reg.corp:5000", "registry.corp"]"#,
            more: String::new(),
        }
    }

    /// A plugin whose answer holds for `key`, and which runs `first` before.
    fn add(&mut self, name: &str, first: &str, answer: &str) {
        self.config += &format!(
            "- name: {name}\n  matchImages: [\"*.corp\", \"*.corp:5000\"]\n  defaultCacheDuration: \
            10m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
        );
        let file = format!("bin/{name}");
        let text = format!("#!/bin/sh\n{first}\necho '{answer}'\n");
        self.node.program(&file, "755", &text);
    }

    /// Writes configuration and settings.
    fn write(&self) {
        self.node.write("providers.yaml", &self.config);
        let document = self.document.as_ref().map(|path| format!("document = {path:?}\n"));
        let settings = format!(
            "qemu = {:?}\n{}run-root = {:?}\n{}[credential-providers]\nconfig = {:?}\nbin-dir = \
            {:?}\n\
             registries = {}\ndeadline-secs = {}\n",
            self.node.path("qemu"),
            document.unwrap_or_default(),
            self.run_root,
            self.more,
            self.node.path("providers.yaml"),
            self.node.path("bin"),
            self.registries,
            self.deadline,
        );
        self.node.write("settings.toml", settings);
    }

    /// Starts a sandbox and returns its document and what stood on standard error.
    fn start(&self) -> (Document, String) {
        self.write();
        let mut command = self.node.wrapper();
        command.args(SANDBOX);
        let waiting = Waiting::start(command);
        let arguments = waiting.arguments();
        let descriptor = arguments
            .iter()
            .find_map(|argument| argument.to_str()?.strip_prefix("fd=")?.split(',').next())
            .unwrap();
        let mut image = Vec::new();
        File::open(waiting.entry(&format!("fd/{descriptor}")))
            .unwrap()
            .read_to_end(&mut image)
            .unwrap();
        // Neither a thread nor a process of the wrapper's is left in QEMU's process.
        let tasks = std::fs::read_dir(waiting.entry("task")).unwrap().count();
        assert_eq!(tasks, 1);
        let pid = waiting.child.id();
        let children = waiting.entry(&format!("task/{pid}/children"));
        assert_eq!(std::fs::read_to_string(children).unwrap_or_default(), "");
        let (status, stderr) = waiting.finish();
        assert_eq!(status.code(), Some(7));
        for secret in [SECRET, PASSWORD] {
            assert!(!stderr.contains(secret), "{stderr}");
        }
        let image = config_image::decode(image.as_slice(), Magic::IMAGEPULLER).unwrap();
        (Document::parse(&image.document).unwrap().document, stderr)
    }
}

/// An answer with one pair for each of `keys`.
fn answer(kind: &str, keys: &str, user: &str) -> String {
    let pair = |key| format!("\"{key}\":{{\"username\":\"{user}\",\"password\":\"{SECRET}\"}}");
    let pairs: Vec<_> = keys.split(' ').map(pair).collect();
    format!(
        "{{\"kind\":\"CredentialProviderResponse\",\
         \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"{kind}\",\
         \"auth\":{{{}}}}}",
        pairs.join(",")
    )
}

/// The user that a document has for a host.
fn user(document: &Document, image: &str) -> Option<String> {
    let (host, repository) = image.split_once('/').unwrap_or((image, ""));
    let host = RegistryHost::parse(host).unwrap();
    let registries = &document.registries;
    let own = registries.repository_entries(&host, repository).next();
    let entry = match (own, registries.entry_for(&host)) {
        (Some((_, entry)), _) | (None, Match::Entry { entry, .. }) => entry,
        (None, Match::Defaults) => return None,
    };
    match &entry.credentials {
        Credentials::Basic { username, .. } => Some(username.clone()),
        _ => None,
    }
}

#[test]
fn answers_go_below_the_document_and_nothing_is_said() {
    let mut plugins = Plugins::new();
    plugins.add("one", "", &answer("Image", "*.corp *.corp:5000", "one"));
    plugins.add("two", "", &answer("Global", "*.corp reg.corp:5000", "two"));
    let (document, stderr) = plugins.start();
    assert_eq!(stderr, "");
    assert_eq!(user(&document, "reg.corp").as_deref(), Some("one"));
    assert_eq!(user(&document, "reg.corp:5000").as_deref(), Some("two"));
    // The kubelet tries the others after a refusal.
    let literals = document.registries.iter().filter(|(name, _)| name.is_literal());
    let further: Vec<_> = literals.map(|(_, entry)| entry.also.len()).collect();
    assert_eq!(further.iter().sum::<usize>(), 2, "{further:?}");
    // What the administrator wrote wins.
    assert_eq!(user(&document, "registry.corp").as_deref(), Some("puller"));
    // No other host gets anything.
    assert_eq!(user(&document, "other.corp"), None);
    assert_eq!(document.registries.len(), 3);
}

#[test]
fn nobody_is_asked_for_a_node_without_a_document() {
    let mut plugins = Plugins::new();
    let text = "node-error = \"no such file\"\n";
    plugins.node.write("document.toml", text);
    let asked = plugins.node.path("asked");
    let first = format!("touch {}", asked.display());
    plugins.add("one", &first, &answer("Registry", "*.corp", "one"));
    let (document, stderr) = plugins.start();
    assert_eq!(stderr, "");
    assert_eq!(document.node_error.map(|reason| reason.to_document()), Some(text.to_owned()));
    assert!(!asked.exists());
}

/// A document allows plain HTTP for a registry and skips the check of another's certificate. A
/// plugin's password joined both entries without a word, while `import` had warned of the same
/// document. A third registry stood in the settings, and nobody said that no plugin is for it.
#[test]
fn added_credentials_that_are_given_away_are_told() {
    let mut plugins = Plugins::new();
    plugins.node.write(
        "document.toml",
        "[registries.\"reg.corp\"]\nplain-http = \
        true\n[registries.\".corp\"]\ninsecure-skip-verify = true\n",
    );
    plugins.add("one", "", &answer("Registry", "reg.corp", "one"));
    plugins.add("two", "", &answer("Registry", "registry.corp", "two"));
    plugins.config = plugins.config.replace(", \"*.corp:5000\"", "");
    let (document, stderr) = plugins.start();
    assert_eq!(user(&document, "registry.corp").as_deref(), Some("two"));
    let lines: Vec<_> = stderr.lines().collect();
    for words in [
        "one: reg.corp.: \"plain-http\" sends the credentials unencrypted",
        "two: registry.corp.: \"insecure-skip-verify\" sends the credentials to whoever answers",
        "credential providers: reg.corp:5000: it is among the registries of the settings, but no \
        usable plugin is for it",
    ] {
        assert!(lines.iter().any(|line| line.contains(words)), "{words}: {stderr}");
    }
    // And each says that the other's registry is none of its own.
    assert_eq!(stderr.matches("none of the keys").count(), 2, "{stderr}");
    assert_eq!(lines.len(), 5, "{stderr}");
}

/// The only certificate authority that the puller trusts for blobs is in another registry's entry.
/// A plugin's entry for the host of the blobs ends that; explain said so, but not the sandbox's
/// log.
#[test]
fn what_an_added_entry_changes_is_told() {
    let mut plugins = Plugins::new();
    plugins.node.write("document.toml", "[registries.\"other.example\"]\nca-certs = \"none\"\n");
    plugins.add("one", "", &answer("Registry", "reg.corp", "one"));
    let (_, stderr) = plugins.start();
    assert!(
        stderr
            .contains("credential provider one: reg.corp.: with an entry of its own it is trusted"),
        "{stderr}"
    );
    // Of the two other registries it knows nothing.
    for words in ["none of the keys", "name the registry without its port"] {
        assert_eq!(stderr.matches(words).count(), 1, "{stderr}");
    }
    assert_eq!(stderr.lines().count(), 3, "{stderr}");
}

#[test]
fn without_a_document_the_answers_are_one() {
    let mut plugins = Plugins::new();
    plugins.document = None;
    plugins.add("one", "", &answer("Registry", "*.corp *.corp:5000", "one"));
    let (document, stderr) = plugins.start();
    assert_eq!((stderr.as_str(), document.registries.len()), ("", 3));
    assert_eq!(user(&document, "reg.corp").as_deref(), Some("one"));
    // A pod that wants no configuration gets none, and nobody is asked.
    let mark = plugins.node.path("mark");
    plugins.add("marks", &format!("touch {}", mark.display()), "");
    plugins.write();
    plugins.node.annotate("");
    let mut command = plugins.node.wrapper();
    command.args(SANDBOX);
    let waiting = Waiting::start(command);
    assert_eq!(waiting.arguments(), SANDBOX);
    waiting.finish();
    assert!(!mark.exists());
}

#[test]
fn no_plugin_fails_or_delays_a_sandbox() {
    let mut plugins = Plugins::new();
    plugins.deadline = 15;
    let good = answer("Registry", "reg.corp", "good");
    plugins.add("bad-exit", "echo hunter2-plugin >&2", &format!("{good}'; exit 3; echo '"));
    plugins.add("bad-junk", "", SECRET);
    plugins.add("bad-key", "", &answer("Image", "other.corp", "x"));
    plugins.add("bad-path", "", &answer("Registry", "reg.corp/Team", "x"));
    plugins.add("path", "", &answer("Registry", "reg.corp/team", "team"));
    plugins.add("bad-user", "", &answer("Registry", "reg.corp", "user:with:colon"));
    // Ignores what asks it to end; its child keeps the output open.
    plugins.add("hangs", "trap '' TERM INT HUP; sleep 3600 & sleep 3600", &good);
    plugins.add("missing", "", "");
    std::fs::remove_file(plugins.node.path("bin/missing")).unwrap();
    plugins.add("shared", "", &good);
    plugins.node.set_mode("bin/shared", 0o777);
    plugins.add("good", "", &good);
    let (document, stderr) = plugins.start();
    assert_eq!(user(&document, "reg.corp").as_deref(), Some("good"));
    assert_eq!(user(&document, "reg.corp/team").as_deref(), Some("team"));
    for words in [
        "kata-configdev-qemu: warning: sandbox 0123: credential provider bad-exit: reg.corp: it \
         failed with exit code 3",
        "credential provider bad-junk: reg.corp: its answer is not usable",
        "credential provider bad-key: reg.corp: none of the keys of its answer is for it",
        "credential provider bad-path: reg.corp: 1 keys of its answer have a path",
        "credential provider bad-user: reg.corp",
        "credential provider hangs: reg.corp: it took longer",
        "credential provider missing: No such file",
        "credential provider shared: its mode 0777",
    ] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    let of_good = "credential provider good: reg.corp: ";
    assert!(!stderr.contains(of_good), "{stderr}");
}

/// A metadata service was down, and each sandbox of the node waited for the plugin's whole time.
#[test]
fn a_plugin_that_hangs_delays_one_sandbox() {
    let Ok(run) = tempfile::tempdir_in("/dev/shm") else {
        test_command::skip("/dev/shm is no tmpfs");
        return;
    };
    let mut plugins = Plugins::new();
    plugins.run_root = run.path().into();
    plugins.deadline = 1;
    let asked = plugins.node.path("asked");
    let count = format!("echo x >> {}; sleep 3600", asked.display());
    plugins.add("hangs", &count, "");
    // On a busy machine the second may be over before the shell has said anything.
    let said = || std::fs::read_to_string(&asked).unwrap_or_default();
    let (_, stderr) = plugins.start();
    assert_eq!(stderr.matches("it took longer than the time").count(), 2);
    let first = said();
    assert!(first.lines().count() <= 2, "{first}");
    let (_, stderr) = plugins.start();
    assert_eq!(said(), first, "it is not asked again: {stderr}");
    let again = "not asked again so soon after it failed: it took longer than the time";
    assert_eq!(stderr.matches(again).count(), 2, "{stderr}");
}

#[test]
fn a_configuration_that_cannot_be_used_fails_no_sandbox() {
    type Change<'a> = &'a dyn Fn(&mut Plugins);
    let cases: [(Change<'_>, &str); 6] = [
        (&|plugins| plugins.config = "hunter2-plugin: [".into(), "providers.yaml: line 1"),
        (&|plugins| plugins.config.clear(), "providers.yaml: "),
        (
            &|plugins| std::fs::remove_dir_all(plugins.node.path("bin")).unwrap(),
            "bin: No such file",
        ),
        (&|plugins| plugins.node.set_mode("bin", 0o777), "bin: its mode 0777"),
        (
            &|plugins| {
                plugins.config += "- name: token\n  matchImages: \
                [\"*.corp\"]\n  defaultCacheDuration: 10m\n  \
              apiVersion: credentialprovider.kubelet.k8s.io/v1\n  tokenAttributes: \
              {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}\n";
                plugins.node.write("bin/token", "");
            },
            "credential provider token: it wants a service account's token",
        ),
        (
            &|plugins| {
                plugins.add("cloud", "", &answer("Registry", "a.pkg.dev", "one"));
                let start = "name: cloud\n  matchImages: [";
                let more = format!("{start}\"*.pkg.dev\", ");
                plugins.config = plugins.config.replace(start, &more);
            },
            "credential provider cloud: no registry is named for \"*.pkg.dev\", so that",
        ),
    ];
    for (change, words) in cases {
        let mut plugins = Plugins::new();
        plugins.add("one", "", &answer("Registry", "other.corp", "one"));
        change(&mut plugins);
        let (document, stderr) = plugins.start();
        assert_eq!(document.registries.len(), 1, "as the administrator wrote it");
        let others = stderr.lines().filter(|line| !line.contains("none of the keys"));
        assert_eq!(others.count(), 1, "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
}

#[test]
fn only_sandboxes_ask() {
    let mut plugins = Plugins::new();
    let mark = plugins.node.path("mark");
    plugins.add("marks", &format!("touch {}", mark.display()), "");
    plugins.write();
    let run =
        |arguments: &[&str]| -> Output { plugins.node.wrapper().args(arguments).output().unwrap() };
    run(&["--version"]);
    run(&["-name", "sandbox-0123", "-machine", "q35", "-incoming", "defer"]);
    assert!(!mark.exists());
    run(&SANDBOX);
    assert!(mark.exists());
}

fn is_in_memory(path: &std::path::Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(path).unwrap().f_type == TMPFS
}

#[test]
fn an_answer_is_kept_in_memory_as_long_as_it_may_be() {
    let Ok(run) = tempfile::tempdir_in("/dev/shm") else {
        test_command::skip("/dev/shm is no tmpfs");
        return;
    };
    let mut plugins = Plugins::new();
    plugins.run_root = run.path().into();
    let asked = plugins.node.path("asked");
    let count = format!("echo x >> {}", asked.display());
    let times = || std::fs::read_to_string(&asked).unwrap_or_default().lines().count();
    plugins.add("one", &count, &answer("Registry", "*.corp *.corp:5000", "one"));
    // Three registries, one process each, but for the one that needs nobody.
    plugins.start();
    assert_eq!(times(), 2);
    let (document, stderr) = plugins.start();
    assert_eq!(user(&document, "reg.corp").as_deref(), Some("one"));
    assert_eq!((times(), stderr.as_str()), (2, ""), "all are known");
    // What is damaged is asked for again.
    let place = run.path().join("kata-configdev/credential-providers");
    for entry in std::fs::read_dir(&place).unwrap() {
        std::fs::write(entry.unwrap().path(), SECRET).unwrap();
    }
    plugins.start();
    assert_eq!(times(), 4);
    // Another program under the name is another plugin.
    let text =
        format!("#!/bin/sh\n{count}\necho '{}'\n", answer("Registry", "*.corp *.corp:5000", "new"));
    plugins.node.program("bin/one", "755", &text);
    let (document, _) = plugins.start();
    assert_eq!(user(&document, "reg.corp").as_deref(), Some("new"));
    assert_eq!(times(), 6);
    // An answer that may not be kept.
    let short = answer("Registry", "*.corp *.corp:5000", "short")
        .replace("\"auth\"", "\"cacheDuration\":\"0s\",\"auth\"");
    let text = format!("#!/bin/sh\n{count}\necho '{short}'\n");
    plugins.node.program("bin/one", "755", &text);
    plugins.start();
    plugins.start();
    assert_eq!(times(), 10);
    // On a disk nothing is kept, whatever a plugin allows. The temporary directory may be in
    // memory; what is built is not.
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    assert!(!is_in_memory(disk.path()), "build on a disk");
    plugins.run_root = disk.path().into();
    let text =
        format!("#!/bin/sh\n{count}\necho '{}'\n", answer("Registry", "*.corp *.corp:5000", "new"));
    plugins.node.program("bin/one", "755", &text);
    plugins.start();
    plugins.start();
    assert_eq!(times(), 14);
}

/// Kata's descriptors go to QEMU through the wrapper, and to nobody on the way.
#[test]
fn plugins_get_no_descriptor_of_katas() {
    use std::os::fd::OwnedFd;

    use command_fds::{CommandFdExt, FdMapping};

    let mut plugins = Plugins::new();
    let list = plugins.node.path("list");
    // Its own shell has some, below 250.
    let script = format!("ls -l /proc/$$/fd > {}", list.display());
    plugins.add("lists", &script, &answer("Registry", "reg.corp", "one"));
    plugins.write();
    let mut command = plugins.node.wrapper();
    command.args(SANDBOX);
    let file = OwnedFd::from(File::open("/dev/zero").unwrap());
    let mapping = FdMapping { parent_fd: file, child_fd: 250 };
    command.fd_mappings(vec![mapping]).unwrap();
    let waiting = Waiting::start(command);
    assert!(waiting.descriptors().contains_key(&250), "QEMU has it");
    waiting.finish();
    let list = std::fs::read_to_string(list).unwrap();
    assert!(list.contains(" 0 -> "), "{list}");
    assert!(!list.contains("/dev/zero"), "{list}");
}

/// Kata's Go runtime starts the hypervisor in the pod's network namespace, where a cloud's token
/// service is out of reach.
#[test]
fn privileged_plugins_run_in_the_network_of_the_machine() {
    let mut plugins = Plugins::new();
    let [machine, plugin, qemu] =
        ["machine", "plugin", "hypervisor"].map(|name| plugins.node.path(name));
    let show = |path: &PathBuf| format!("readlink /proc/self/ns/net > {}", path.display());
    plugins.add("shows", &show(&plugin), &answer("Registry", "*.corp *.corp:5000", "one"));
    plugins.write();
    let text = format!("#!/bin/sh\n{}\n", show(&qemu));
    plugins.node.program("qemu", "700", &text);
    // A machine in small: a first process that may be looked at, and a sandbox in a network of its
    // own.
    let mut command = std::process::Command::new("unshare");
    plugins.node.place(&mut command);
    let script = format!("{}; exec unshare --net \"$0\" \"$@\"", show(&machine));
    let output = command
        .args(["--pid", "--fork", "--mount-proc", "sh", "-c"])
        // The shell in the middle stays the first process.
        .arg(format!("({script}); exit $?"))
        .arg(env!("CARGO_BIN_EXE_kata-configdev-qemu"))
        .args(SANDBOX)
        .output();
    let Ok(machine) = std::fs::read_to_string(machine) else {
        test_command::skip("making namespaces needs root and unshare");
        return;
    };
    let output = output.unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let [plugin, qemu] = [plugin, qemu].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(plugin, machine);
    assert_ne!(qemu, machine, "QEMU stays where Kata started it");
}
