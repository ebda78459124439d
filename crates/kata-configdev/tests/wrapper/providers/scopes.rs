//! One plugin that the kubelet has for several parts of a registry.

use super::{Plugins, answer, user};

/// A plugin answers about one half of a registry and fails for the other. Both were remembered in
/// one place: the answer of one half counted for the other, or its failure kept it from being
/// asked.
#[test]
fn what_is_remembered_of_one_half_says_nothing_of_the_other() {
    let Ok(run) = tempfile::tempdir_in("/dev/shm") else {
        test_command::skip("/dev/shm is no tmpfs");
        return;
    };
    for (good, bad) in [("one", "two"), ("two", "one")] {
        let mut plugins = Plugins::new();
        plugins.run_root = run.path().into();
        plugins.deadline = 2;
        let asked = plugins.node.path("asked");
        // It hangs, because a failure at once is remembered for a few seconds only.
        let first = format!(
            "read request\ncase $request in */{bad}/*) echo {bad} >> {0}; sleep 3600;; esac\n\
             echo {good} >> {0}",
            asked.display()
        );
        plugins.add("halves", &first, &answer("Registry", "reg.corp", "half"));
        let patterns = "[\"*.corp\", \"*.corp:5000\"]";
        let halves = "[\"reg.corp/one\", \"reg.corp/two\"]";
        plugins.config = plugins.config.replace(patterns, halves);
        for start in ["first", "second"] {
            let (document, stderr) = plugins.start();
            let user = |half: &str| user(&document, &format!("reg.corp/{half}/app"));
            assert_eq!(user(good).as_deref(), Some("half"), "{start}: {stderr}");
            assert_eq!(user(bad), None, "{start}");
            let mut asked: Vec<_> =
                std::fs::read_to_string(&asked).unwrap().lines().map(String::from).collect();
            asked.sort();
            assert_eq!(asked, ["one", "two"], "{start}: {stderr}");
            let again = stderr.contains("not asked again so soon");
            assert_eq!(again, start == "second", "{stderr}");
        }
    }
}

/// A registry of a cloud has the repositories of many teams, and its plugin's password holds for
/// those of one: asked about the host alone it gave none, or one that others' images must not have.
#[test]
fn a_part_of_a_registry_is_asked_about_alone() {
    let mut plugins = Plugins::new();
    plugins.registries = r#"["reg.corp/team", "registry.corp/team"]"#;
    let asked = plugins.node.path("asked");
    let note = |name: &str| {
        let file = asked.display();
        format!("read request\nr=${{request##*image\\\":\\\"}}\necho {name} ${{r%%\\\"*}} >>{file}")
    };
    for (name, pattern, keys) in [
        ("whole", "reg.corp", "reg.corp reg.corp/other"),
        ("above", "reg.corp/te", "reg.corp/other"),
        ("below", "reg.corp/team/sub", "reg.corp"),
        ("aside", "reg.corp/other", "reg.corp"),
        // The document has a password for it.
        ("taken", "registry.corp", "registry.corp"),
    ] {
        plugins.add(name, &note(name), &answer("Registry", keys, name));
        let before = "[\"*.corp\", \"*.corp:5000\"]";
        plugins.config = plugins.config.replace(before, &format!("[\"{pattern}\"]"));
    }
    let (document, stderr) = plugins.start();
    let asked = std::fs::read_to_string(asked).unwrap();
    let mut asked: Vec<_> = asked.lines().collect();
    asked.sort_unstable();
    let questions =
        ["above reg.corp/team/probe", "below reg.corp/team/sub/probe", "whole reg.corp/team/probe"];
    assert_eq!(asked, questions);
    for (image, expected) in [
        ("reg.corp/team/app", Some("whole")),
        ("reg.corp/team/sub/app", Some("below")),
        ("reg.corp/teams/app", None),
        ("reg.corp/other/app", None),
    ] {
        assert_eq!(user(&document, image).as_deref(), expected, "{image}");
    }
    let names: Vec<_> = document.registries.iter().map(|(name, _)| name.to_string()).collect();
    assert!(names.contains(&"reg.corp/team".into()), "{names:?}");
    let line = "credential provider above: reg.corp/team: none of the keys of its answer is for it";
    assert!(stderr.contains(line) && stderr.lines().count() == 1, "{stderr}");
}
