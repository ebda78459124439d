//! Sandboxes that are for some registries only: what plugins are asked, and who gets the answer.

use serde_json::json;

use super::{Plugins, answer, user};

const LIST: &str = "io.katacontainers.config.runtime.imagepuller_registries";

impl Plugins {
    /// A plugin that notes the image it is asked about, and answers for every one; its user is the
    /// image, with a letter that user names have for the colon.
    fn noting(run_root: Option<&tempfile::TempDir>) -> Self {
        let mut plugins = Self::new();
        if let Some(run) = run_root {
            plugins.run_root = run.path().into();
        }
        let first = format!(
            "image=$(sed 's/.*\"image\":\"\\([^\"]*\\).*/\\1/')\necho $image >> {}\nimage=$(echo $image | tr : +)",
            plugins.node.path("asked").display()
        );
        plugins.add("noting", &first, &answer("Global", "*.corp *.corp:5000", "'$image'"));
        plugins
    }

    fn list(&self, names: &str) {
        let spec = json!({"ociVersion": "1.1.0", "annotations": {LIST: names}});
        self.node.write("bundle/config.json", spec.to_string());
    }

    /// The images that were asked about so far, in the order of their names.
    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.node.path("asked")).unwrap_or_default();
        let mut asked: Vec<_> = text.lines().map(String::from).collect();
        asked.sort();
        asked
    }
}

#[test]
fn plugins_are_asked_about_listed_repositories() {
    let mut plugins = Plugins::noting(None);
    // One that is nobody's, and one for which the document has credentials.
    plugins.list("reg.corp:443/team-a/app, reg.corp:5000/b evil.corp/x,registry.corp/c");
    let (document, stderr) = plugins.start();
    assert_eq!(stderr, "");
    let (one, other) = ("reg.corp/team-a/app", "reg.corp:5000/b");
    assert_eq!(plugins.asked(), [one, other]);
    assert_eq!(user(&document, one).as_deref(), Some(one));
    assert_eq!(user(&document, other).as_deref(), Some("reg.corp+5000/b"));
    let below = format!("{one}/part");
    assert_eq!(user(&document, &below).as_deref(), Some(one));
    for nobodys in ["reg.corp/team-a", "reg.corp/team-a/app-b", "reg.corp:5000", "evil.corp/x"] {
        assert_eq!(user(&document, nobodys), None, "{nobodys}");
    }
    assert_eq!(user(&document, "registry.corp/c").as_deref(), Some("puller"));

    // What the administrator says is the most that anybody gets.
    plugins.more = "only-registries = [\"reg.corp:443/team-b\"]\n".into();
    plugins.list("reg.corp reg.corp/team-a/app evil.corp registry.corp reg.corp/team-b/app");
    let (document, stderr) = plugins.start();
    assert_eq!(stderr, "");
    let mine = "reg.corp/team-b/app";
    let own = "reg.corp/team-b";
    assert_eq!(plugins.asked(), [one, own, mine, other]);
    assert_eq!(user(&document, mine).as_deref(), Some(mine));
    assert_eq!(user(&document, one), None);
    assert_eq!(user(&document, "registry.corp/c"), None);
    // An entry that nobody uses keeps all but its secrets.
    assert!(document.registries.iter().any(|(name, _)| name.to_string() == "registry.corp."));
}

#[test]
fn no_annotation_makes_more_questions() {
    let mut plugins = Plugins::noting(None);
    plugins.add("other", "", &answer("Image", "*.corp", "other"));
    let names =
        |count| -> Vec<String> { (0..count).map(|n| format!("reg.corp:443/r{n}")).collect() };
    plugins.list(&names(32).join(" "));
    let (document, stderr) = plugins.start();
    assert_eq!(plugins.asked().len(), 32);
    assert!(
        stderr.contains("other: reg.corp: 32 of the listed repositories are too many"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert_eq!(user(&document, "reg.corp/r31").as_deref(), Some("reg.corp/r31"));
}

/// A plugin may give each pod a token of its own, whatever it says of how long and for what that
/// may be kept.
#[test]
fn an_answer_for_one_pod_reaches_no_other() {
    let Ok(run) = tempfile::tempdir_in("/dev/shm") else {
        test_command::skip("/dev/shm is no tmpfs");
        return;
    };
    let plugins = Plugins::noting(Some(&run));
    for (list, images) in [
        ("reg.corp/team-a", &["reg.corp/team-a"][..]),
        ("reg.corp/team-b", &["reg.corp/team-a", "reg.corp/team-b"]),
        // Now it is kept.
        ("reg.corp/team-a", &["reg.corp/team-a", "reg.corp/team-b"]),
    ] {
        plugins.list(&list.replace("corp/", "corp:443/"));
        let (document, stderr) = plugins.start();
        assert_eq!(
            (plugins.asked(), stderr.as_str()),
            (images.iter().map(ToString::to_string).collect(), "")
        );
        for team in ["reg.corp/team-a", "reg.corp/team-b"] {
            let expected = (team == list).then_some(team);
            assert_eq!(user(&document, &format!("{team}/app")).as_deref(), expected);
        }
        assert_eq!(user(&document, "reg.corp"), None);
    }
    // Nor does it reach one that is for everything.
    plugins.node.write("bundle/config.json", r#"{"ociVersion":"1.1.0"}"#);
    let (document, _) = plugins.start();
    let probe = "reg.corp/probe";
    for image in ["reg.corp/team-a", "reg.corp/x"] {
        assert_eq!(user(&document, image).as_deref(), Some(probe), "{image}");
    }
}
