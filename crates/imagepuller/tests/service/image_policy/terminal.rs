//! The policy of a person, and what is said of the owner's without a pull.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use confidential_fixtures::Vault;
use serde_json::{Value, json};

use super::place::{Place, document, policy, signed_by};
use crate::support::imagepuller;

/// A directory with the node's document and what a person wrote.
struct Desk(PathBuf);

impl Desk {
    fn new(place: &Place) -> Self {
        let directory = tempfile::tempdir_in(place.site.scratch.path()).unwrap().keep();
        fs::write(directory.join("config.toml"), place.site.document("localhost")).unwrap();
        fs::copy(place.team.public(), directory.join("team.pub")).unwrap();
        Self(directory)
    }

    fn write(&self, name: &str, policy: &Value) -> String {
        let path = self.0.join(name);
        fs::write(&path, policy.to_string()).unwrap();
        path.display().to_string()
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        let config = self.0.join("config.toml");
        let config = config.to_str().unwrap();
        let all = [&[command, "--config", config], arguments].concat();
        imagepuller(all).current_dir(&self.0).output().unwrap()
    }

    fn pull(&self, arguments: &[&str]) -> (Output, PathBuf) {
        let output = self.0.join("out");
        let _ = fs::remove_dir_all(&output);
        let to = ["--output", output.to_str().unwrap()];
        (self.run("pull", &[&to, arguments].concat()), output)
    }

    #[track_caller]
    fn refuse(&self, arguments: &[&str], words: &[&str]) {
        let (output, directory) = self.pull(arguments);
        says(&output, 65, words);
        assert!(!directory.exists());
    }
}

#[track_caller]
fn says(output: &Output, code: i32, words: &[&str]) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn privileged_a_person_pulls_by_a_policy() {
    vm_harness::needs_root!();
    let place = Place::start();
    let desk = Desk::new(&place);
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    let tag = format!("{name}:1");
    let by = |key: &str| policy(&[(&name, signed_by(key, "matchRepository"))]);
    let file = desk.write("policy.json", &by("team.pub"));
    desk.refuse(&["--policy", &file, &image], &["no signature was found"]);
    place.sign(&place.team, &digest, &name, "team/app");
    let there = place.team.public().display().to_string();
    let by_path = desk.write("by-path.json", &by(&there));
    let relative = "policy.json".to_owned();
    for (file, image) in [(&file, &image), (&relative, &image), (&file, &tag), (&by_path, &tag)] {
        let (output, directory) = desk.pull(&["--policy", file, image]);
        says(&output, 0, &[&digest]);
        let content = fs::read(directory.join("rootfs/content")).unwrap();
        assert_eq!(content, b"first");
    }
    let absent = desk.write("absent.json", &by("absent.pub"));
    desk.refuse(&["--policy", &absent, &image], &["absent.pub cannot be read"]);
    let open = desk.write("open.json", &json!({"default": [{"type": "insecureAcceptAnything"}]}));
    desk.refuse(&["--policy", &open, &tag], &["no digest", "is not resolved"]);
    let broken = desk.write("broken.json", &json!({"default": []}));
    desk.refuse(&["--policy", &broken, &image], &["--policy ", "has no requirement"]);
    desk.refuse(&["--policy", "nowhere.json", &image], &["--policy nowhere.json cannot be used"]);
    let measured = desk.0.join("measured.toml");
    fs::write(&measured, document(&by("team.pub"), "")).unwrap();
    let measured = measured.to_str().unwrap();
    desk.refuse(
        &["--policy", &file, "--measured", measured, &image],
        &["has an [image-policy] already"],
    );
    // The owner's policy alone, with its keys beside the document.
    for measured in [measured, "measured.toml"] {
        let (output, _) = desk.pull(&["--measured", measured, &image]);
        says(&output, 0, &[&digest]);
    }
    desk.refuse(&["--measured", measured, &tag], &["no digest", "allow-tags"]);
}

/// The form of the example of Confidential Containers, without a flag: a key of the broker, no
/// identity, and a signature as `cosign sign` writes it, for the repository without a tag.
#[test]
fn privileged_the_policy_of_cocos_example_takes_what_cosign_signs() {
    vm_harness::needs_root!();
    let place = Place::start();
    let desk = Desk::new(&place);
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    let accept = json!([{"type": "insecureAcceptAnything"}]);
    let signed = json!([
        {"type": "sigstoreSigned", "keyPath": "kbs:///default/cosign-public-key/test"},
    ]);
    let scopes = json!({&name: signed, "quay.io/prometheus": accept});
    let example = json!({"default": accept, "transports": {"docker": scopes}});
    let file = desk.write("security-policy.json", &example);
    let key = fs::read(place.team.public()).unwrap();
    let vault = Vault::new().with("default/cosign-public-key/test", key).offline_file();
    fs::write(desk.0.join("resources.json"), vault).unwrap();
    let source = desk.0.join("resources.json").display().to_string();
    let source = format!("[resources]\nsource = \"file={source}\"\n");
    fs::write(desk.0.join("measured.toml"), source).unwrap();
    let arguments = ["--policy", &file, "--measured", "measured.toml", &image];
    desk.refuse(&arguments, &["no signature was found"]);
    place.sign(&place.team, &digest, &place.name("team/other"), "team/app");
    desk.refuse(&arguments, &["with matchRepository, the default, but", "/team/other"]);
    place.sign(&place.team, &digest, &name, "team/app");
    says(&desk.pull(&arguments).0, 0, &[&digest]);
}

#[test]
fn privileged_probe_calls_nothing_working_that_the_owner_refuses() {
    vm_harness::needs_root!();
    let place = Place::start();
    let desk = Desk::new(&place);
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    let tag = format!("{name}:1");
    let by_team = policy(&[(&name, signed_by("team.pub", "matchRepository"))]);
    let measured = |more: &str| {
        let path = desk.0.join("measured.toml");
        fs::write(&path, document(&by_team, more)).unwrap();
        path.display().to_string()
    };
    let probe = |measured: &str, image: &str| {
        desk.run("probe", &["--timeout", "20", "--measured", measured, image])
    };
    let without = measured("");
    for image in [&image, &tag] {
        says(&probe(&without, image), 65, &[": fails: ", "no signature was found"]);
    }
    place.sign(&place.team, &digest, &name, "team/app");
    says(&probe(&without, &image), 0, &[": works: "]);
    says(&probe(&without, &tag), 0, &[": works: ", "only by its digest"]);
    let allowed = measured(&format!("allow-tags = [\"{name}\"]\n"));
    let output = probe(&allowed, &tag);
    says(&output, 0, &[": works: "]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("only by its digest"));
    let outside = image.replace("team/app", "foreign/app");
    says(&probe(&allowed, &outside), 65, &[": fails: ", "rejects it"]);
}
