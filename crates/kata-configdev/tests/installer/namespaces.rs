//! Documents by namespace, and documents for the annotation.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;

use kata_configdev::settings::RULES;
use node_installer::engine::Engine;
use node_installer::watch::{RESCAN, watch};
use node_installer::{Options, Outcome, install, uninstall};
use test_command::wait_until;

use crate::installer::machine::{
    DOCUMENT, DROP_INS, Machine, NOTHING_YET, SETTINGS, document, mode,
};

const NAMESPACES: &str = "opt/kata-configdev/default/etc/host-config/namespaces";
const DOCUMENTS: &str = "opt/kata-configdev/default/etc/host-config/documents";

/// The options of a machine. What the wrapper makes of the settings is not asked here.
fn options(machine: &Machine, head: &str) -> Options {
    let text = format!("{head}{}", machine.configuration());
    Options::parse(text.as_bytes(), RULES).unwrap()
}

fn pass(machine: &Machine) -> Outcome {
    install(&options(machine, "engine = \"cri-o\"\n")).unwrap()
}

fn lines(outcome: &Outcome) -> String {
    let problems = outcome.problems.iter().flat_map(|problem| problem.lines());
    let lines: Vec<String> = problems.chain(outcome.warnings.clone()).collect();
    lines.join("\n")
}

/// A machine whose set has the teams, each with a secret of its name.
fn machine(teams: &[&str]) -> Machine {
    let mut machine = Machine::new();
    name_teams(&mut machine, teams);
    machine
}

fn name_teams(machine: &mut Machine, teams: &[&str]) {
    machine.more = teams
        .iter()
        .map(|team| {
            let place = machine.path(team);
            format!("namespaces.{team} = {{ secret = {place:?}, required = true }}\n")
        })
        .collect();
}

fn read(machine: &Machine, team: &str) -> String {
    machine.read(&format!("{NAMESPACES}/{team}.toml"))
}

#[test]
fn each_namespace_has_its_document_and_loses_it_with_its_line() {
    let mut machine = machine(&["team-a", "team-b"]);
    machine.mount_other("team-a", &[("imagepuller.toml", &document("a"))]);
    let outcome = pass(&machine);
    // Only team-b waits.
    let told = lines(&outcome);
    assert_eq!(outcome.problems.len(), 1, "{told}");
    let place = machine.path("team-b").display().to_string();
    for words in ["default/namespaces/team-b requires", &place] {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(read(&machine, "team-a"), document("a"));
    assert!(read(&machine, "team-b").starts_with("node-error = "));
    let path = machine.host(NAMESPACES);
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&path.join("team-a.toml")), 0o600);
    let settings = machine.read(SETTINGS);
    for line in [
        &*format!("document = \"/{NAMESPACES}/{{namespace}}.toml\""),
        "engine = \"cri-o\"",
        "namespace-fallback = \"refuse\"",
        "missing-document = \"this node has no registry configuration for the namespace of this \
         pod, or has not got it yet\"",
    ] {
        assert!(settings.lines().any(|one| one == line), "{settings}");
    }
    // Nobody gets the set's own.
    assert!(!machine.host(DOCUMENT).exists());
    assert!(machine.host(DROP_INS[0]).exists());

    machine.mount_other("team-b", &[("imagepuller.toml", &document("b"))]);
    let before = machine.state();
    let outcome = pass(&machine);
    assert_eq!((outcome.changes, outcome.problems.len()), (1, 0));
    let after = machine.state();
    let of_a = machine.host(&format!("{NAMESPACES}/team-a.toml"));
    assert_eq!(before[&of_a], after[&of_a]);
    assert_eq!(pass(&machine).changes, 0);

    // A broken secret costs only its own namespace the new document.
    machine.mount_other("team-a", &[("imagepuller.toml", "x = 1\n")]);
    machine.mount_other("team-b", &[("imagepuller.toml", &document("b2"))]);
    let outcome = pass(&machine);
    let told = lines(&outcome);
    assert!(
        told.contains("the set default/namespaces/team-a: 1 problem; the previous document stays"),
        "{told}"
    );
    assert_eq!(read(&machine, "team-a"), document("a"));
    assert_eq!(read(&machine, "team-b"), document("b2"));

    // The line goes, though the secret stays.
    name_teams(&mut machine, &["team-b"]);
    assert_eq!(pass(&machine).problems.len(), 0);
    assert!(!of_a.exists());
    assert_eq!(read(&machine, "team-b"), document("b2"));
    uninstall(&options(&machine, "")).unwrap();
    assert_eq!(machine.files(), Vec::<String>::new());
    assert!(!path.exists());
}

#[test]
fn a_key_of_one_secret_is_a_namespace() {
    let mut machine = Machine::new();
    let place = machine.path("teams");
    machine.more = format!("namespaces-secret = {place:?}\nnamespace-fallback = \"document\"\n");
    machine.mount_document(&document("own"));
    // Nobody has a document yet, and the directory says so: the wrapper knows that it is filled.
    assert_eq!(pass(&machine).problems.len(), 0);
    assert_eq!(mode(&machine.host(NAMESPACES)), 0o700);
    let settings: toml::Table = machine.read(SETTINGS).parse().unwrap();
    let fallback = format!("/{DOCUMENT}");
    assert_eq!(settings["namespace-fallback"].as_str(), Some(&*fallback));
    assert_eq!(machine.read(DOCUMENT), document("own"));

    let docker = r#"{"auths":{"b.corp":{"auth":"dTpw"}}}"#;
    machine.mount_other(
        "teams",
        &[("team-a.toml", &document("a")), ("team-b.dockerconfigjson", docker), ("Notes", "x")],
    );
    let outcome = pass(&machine);
    assert_eq!(outcome.problems.len(), 0, "{}", lines(&outcome));
    assert!(lines(&outcome).contains("Notes; nothing of them is used"));
    assert_eq!(read(&machine, "team-a"), document("a"));
    assert!(read(&machine, "team-b").contains("b.corp"));
    machine.mount_other("teams", &[("team-a.toml", &document("a"))]);
    pass(&machine);
    assert!(!machine.host(&format!("{NAMESPACES}/team-b.toml")).exists());

    // It cannot be read: everything stays.
    fs::remove_dir_all(&place).unwrap();
    fs::write(&place, "").unwrap();
    let outcome = pass(&machine);
    assert!(lines(&outcome).contains("read the secret of the set default/namespaces"));
    assert_eq!(read(&machine, "team-a"), document("a"));
}

/// The wrapper believes no directory that a group can write to: nobody falls back meanwhile.
#[test]
fn a_directory_that_was_not_filled_is_closed_once_it_is() {
    let mut machine = machine(&["team-a"]);
    machine.mount_other("team-a", &[("imagepuller.toml", &document("a"))]);
    let path = machine.host(NAMESPACES);
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o720)).unwrap();
    // Somebody else's file is in the way.
    let file = path.join("team-a.toml");
    fs::write(&file, "theirs").unwrap();
    assert_eq!(pass(&machine).problems.len(), 1);
    assert_eq!(mode(&path), 0o720);
    fs::remove_file(file).unwrap();
    assert_eq!(pass(&machine).problems.len(), 0);
    assert_eq!(mode(&path), 0o700);
}

#[test]
fn documents_for_the_annotation_are_where_pods_may_name_them() {
    let mut machine = Machine::new();
    machine.mount_document(&document("own"));
    machine.more = format!(
        "documents.\"team-a.ci\" = {{ secret = {:?}, key = \"x\" }}\n\
         documents.imagepuller = {{ docker-configs = [{:?}] }}\n",
        machine.path("ci"),
        machine.path("docker")
    );
    machine.mount_other("ci", &[("x", &document("ci"))]);
    let outcome = pass(&machine);
    assert_eq!(outcome.problems.len(), 0, "{}", lines(&outcome));
    let ci = format!("{DOCUMENTS}/team-a.ci.toml");
    assert_eq!(machine.read(&ci), document("ci"));
    // Not another document with the same name.
    let none = machine.read(&format!("{DOCUMENTS}/imagepuller.toml"));
    assert_eq!(none, NOTHING_YET);
    assert_eq!(machine.read(DOCUMENT), document("own"));
    let settings: toml::Table = machine.read(SETTINGS).parse().unwrap();
    let allowed = settings["annotation-allow"].as_array().unwrap();
    let allowed: Vec<&str> = allowed.iter().filter_map(toml::Value::as_str).collect();
    assert_eq!(allowed, ["/etc/allowed", &format!("/{DOCUMENTS}")]);
    assert!(!settings.contains_key("engine"));

    // They move with the set's own.
    let moved = "document-dir = \"/run/documents\"\nengine = \"containerd\"\n";
    fs::create_dir_all(machine.host("run/documents")).unwrap();
    install(&options(&machine, moved)).unwrap();
    let place = "run/documents/default/documents/team-a.ci.toml";
    assert_eq!(machine.read(place), document("ci"));
    assert!(!machine.host(&ci).exists());
}

#[test]
fn a_projected_volume_and_a_whole_secret_are_watched() {
    let mut machine = Machine::new();
    let (volume, whole) = (machine.path("volume"), machine.path("whole"));
    machine.more = format!("namespaces-secret = {whole:?}\n");
    for team in ["team-a", "team-b"] {
        let place = volume.join(team).join("document");
        let line = format!("namespaces.{team} = {{ secret = {place:?}, key = \"x\" }}\n");
        machine.more.push_str(&line);
    }
    let (a, b) = ("team-a/document/x", "team-b/document/x");
    machine.mount_other("volume", &[(a, &document("a"))]);
    machine.mount_other("whole", &[]);
    let options = options(&machine, "engine = \"containerd\"\n");
    let (mut stop, stopped) = UnixStream::pair().unwrap();
    let has = |machine: &Machine, team: &str, text: &str| {
        let path = machine.host(&format!("{NAMESPACES}/{team}.toml"));
        wait_until(team, || fs::read_to_string(&path).is_ok_and(|found| found == text));
    };
    thread::scope(|scope| {
        let watching =
            scope.spawn(|| watch(&options, &BTreeSet::new(), stopped, |_: &mut Outcome| RESCAN));
        has(&machine, "team-a", &document("a"));
        has(&machine, "team-b", NOTHING_YET);
        machine.mount_other("volume", &[(a, &document("a")), (b, &document("b"))]);
        has(&machine, "team-b", &document("b"));
        machine.mount_other("volume", &[(a, &document("a2")), (b, &document("b"))]);
        has(&machine, "team-a", &document("a2"));
        machine.mount_other("whole", &[("team-c.toml", &document("c"))]);
        has(&machine, "team-c", &document("c"));
        machine.mount_other("volume", &[(a, &document("a2"))]);
        has(&machine, "team-b", NOTHING_YET);
        machine.mount_other("whole", &[]);
        let path = machine.host(&format!("{NAMESPACES}/team-c.toml"));
        wait_until("its end", || !path.exists());
        stop.write_all(b"x").unwrap();
        watching.join().unwrap().unwrap();
    });
}

#[test]
fn without_a_known_engine_nothing_is_written_by_namespace() {
    if let Some(engine) = Engine::of_this_pod() {
        test_command::skip(&format!("this is a container of {engine}"));
        return;
    }
    let mut machine = machine(&["team-a"]);
    machine.mount_other("team-a", &[("imagepuller.toml", &document("a"))]);
    let outcome = install(&options(&machine, "")).unwrap();
    let told = lines(&outcome);
    assert!(told.contains("tell which container engine runs the pods"));
    assert!(told.contains("say engine = \"containerd\" or engine = \"cri-o\""));
    assert!(!machine.host(SETTINGS).exists() && !machine.host(DROP_INS[0]).exists());
    // A set without them needs none, nor does one that is turned off.
    machine.more = "enabled = false\n".to_owned() + &machine.more;
    let outcome = install(&options(&machine, "")).unwrap();
    assert!(!lines(&outcome).contains("container engine"));
    assert!(machine.host(SETTINGS).exists());
}

/// A directory of documents for each namespace, made by somebody else, needs the engine too.
#[test]
fn directories_by_namespace_for_the_annotation_need_the_engine() {
    let machine = Machine::new();
    let allow = "annotation-allow = [\"/etc/tenants/{namespace}\"]";
    let before = "annotation-allow = [\"/etc/allowed\"]";
    let text = machine.configuration();
    assert!(text.contains(before), "{text}");
    let text = format!("engine = \"cri-o\"\n{}", text.replace(before, allow));
    let outcome = install(&Options::parse(text.as_bytes(), RULES).unwrap()).unwrap();
    assert!(!lines(&outcome).contains("engine"), "{}", lines(&outcome));
    let settings: toml::Table = machine.read(SETTINGS).parse().unwrap();
    assert_eq!(settings["engine"].as_str(), Some("cri-o"));
}

#[test]
fn mistakes_are_refused_with_their_place() {
    let machine = Machine::new();
    for (line, rule) in [
        (
            "namespaces.Team.required = true",
            "namespaces.\"Team\": not a name that Kubernetes gives a namespace",
        ),
        ("namespaces.\"..\".required = true", "namespaces.\"..\": not"),
        ("namespaces.\"a.b\".required = true", "namespaces.\"a.b\": not"),
        ("documents.\"a/b\".required = true", "documents.\"a/b\": not of lower-case letters"),
        ("namespaces.a.secret = \"x\"", "namespaces.\"a\".secret: not an absolute path"),
        ("namespaces.a = { secret = \"/x\", key = \"../x\" }", "namespaces.\"a\".key: not the key"),
        ("namespaces.a.handlers = []", "unknown field `handlers`"),
        ("namespaces-secret = \"x\"", "namespaces-secret: not an abs"),
        ("namespace-fallback = \"/x\"", "unknown variant `/x`"),
        ("namespaces.a.only-registries = [\"x\"]", "unknown field `only-registries`"),
        ("only-registries = [\"x\"]", "unknown field `only-registries`"),
        ("disks.timesync = \"x\"", "unknown field `disks`"),
    ] {
        let text = machine.configuration();
        let text = text.replace("[sets.default]\n", &format!("[sets.default]\n{line}\n"));
        let error = Options::parse(text.as_bytes(), RULES).unwrap_err();
        assert!(error.to_string().contains(rule), "{line}: {error}");
    }
}
