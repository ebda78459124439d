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
