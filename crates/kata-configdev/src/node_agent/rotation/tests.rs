use puller_config::RegistryHost;

use super::*;
use crate::providers::{AskedPlugin, NotKept};

const FRESH: Outcome = Outcome::Fresh { kept_for: Err(NotKept::NoTime) };

/// Whether the wrapper may rely on the agent after these passes.
fn works_after(passes: &[&[(&str, Outcome)]]) -> bool {
    let mut rotation = Rotation::default();
    let mut asked = Asked::default();
    for pass in passes {
        asked.counted.clear();
        let of_plugin = |(name, outcome): &(&str, Outcome)| AskedPlugin {
            source: format!("credential provider {name}"),
            host: RegistryHost::parse("registry.corp").unwrap(),
            repositories: None,
            outcome: *outcome,
        };
        let contribution =
            Contribution { asked: pass.iter().map(of_plugin).collect(), ..Contribution::default() };
        asked.count(&contribution, true);
        // For another sandbox of the same pass.
        asked.count(&contribution, false);
    }
    rotation.sets.insert("default".into(), asked);
    rotation.works_here("default")
}

#[test]
fn a_plugin_works_once_it_answered_until_it_failed_for_long() {
    let (answers, hangs, fails) =
        (&[("one", FRESH)][..], &[("one", Outcome::Hung)][..], &[("one", Outcome::Failed)][..]);
    let kept = &[("one", Outcome::Kept { left: LEAST })][..];
    for (passes, works) in [
        (&[][..], false),
        (&[hangs], false),
        (&[fails, kept], false),
        (&[kept], true),
        (&[answers, hangs, fails], true),
        (&[answers, hangs, fails, hangs], false),
        (&[answers, hangs, fails, answers, hangs], true),
        (&[answers, hangs, hangs, hangs, answers], true),
    ] {
        assert_eq!(works_after(passes), works, "{passes:?}");
    }
}

/// A node whose one plugin has no answer about `ecr.corp/odd`.
fn node(at: &std::path::Path) -> Options {
    let script = "#!/bin/sh\nread question\n\
        case $question in *ecr.corp/odd*) exit 1;; esac\n\
        echo '{\"kind\":\"CredentialProviderResponse\",\
        \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
        \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"0s\",\
        \"auth\":{\"ecr.corp\":{\"username\":\"a\",\"password\":\"b\"}}}'\n";
    let list = r#"{"kind":"CredentialProviderConfig",
        "apiVersion":"kubelet.config.k8s.io/v1","providers":[{"name":"ecr",
        "matchImages":["*.corp"],"defaultCacheDuration":"0s",
        "apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}"#;
    let settings = format!(
        "run-root = {:?}\n[credential-providers]\nconfig = {:?}\nbin-dir = {:?}\n\
         registries = [\"ecr.corp\"]\n",
        at.join("run"),
        at.join("list.json"),
        at
    );
    for (name, text) in [("ecr", script), ("list.json", list), ("settings", &settings)] {
        // By another process: of a file that this one writes, a child of a neighbour may still
        // have the descriptor, and then nobody can execute it.
        let command = "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\"";
        let mut shell = std::process::Command::new("/bin/sh");
        let written = shell.args(["-c", command]).arg(at.join(name)).arg(text);
        assert!(written.status().unwrap().success());
    }
    let settings = at.join("settings");
    let text = "host = \"/\"\nprefix = \"/p\"\nwrapper = \"/w\"\nsandboxes = true\n\
         providers = true\n[sets.default]\nsecret = \"/s\"\nhandlers = [\"/h\"]\n";
    let mut options = Options::parse(text.as_bytes(), crate::settings::RULES).unwrap();
    let set = options.sets.get_mut("default").unwrap();
    set.settings_file = node_installer::HostPath::parse(settings.to_str().unwrap()).unwrap();
    options
}

/// What a pod lists is its author's word: a plugin that has no answer about it works all the
/// same, and other sandboxes get theirs.
#[test]
fn a_pods_list_says_nothing_of_the_plugins() {
    let folder = tempfile::tempdir().unwrap();
    let options = node(folder.path());
    let mut rotation = Rotation::default();
    let document = Document::parse(b"").unwrap().document;
    let ask = |rotation: &mut Rotation, only: Option<&str>| {
        let only = only.map(|list| OnlyRegistries::parse(list).unwrap());
        let own = (&b""[..], &document);
        let done = rotation.complete(&options, "default", own, only.as_ref());
        done.unwrap().missing.is_none()
    };
    assert!(ask(&mut rotation, None));
    for pass in 0..2 * FAILED_PASSES {
        assert!(!ask(&mut rotation, Some("ecr.corp/odd")), "{pass}");
        rotation.due();
        let set = rotation.sets.get_mut("default").unwrap();
        let odd = OnlyRegistries::parse("ecr.corp/odd").unwrap();
        let round = set.rounds.get_mut(&Some(odd)).unwrap();
        assert!(round.next - Instant::now() > LEAST, "{pass}");
        round.next = Instant::now();
        assert!(rotation.works_here("default"), "{pass}");
    }
    assert!(ask(&mut rotation, Some("ecr.corp/app")) && ask(&mut rotation, None));
}

#[test]
fn what_one_plugin_says_is_no_answer_of_another() {
    let pass = &[("one", FRESH), ("two", Outcome::Hung)][..];
    assert!(works_after(&[pass, pass]));
    assert!(!works_after(&[pass, pass, pass]));
}
