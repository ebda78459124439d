//! Documents by namespace.

use super::*;
use crate::namespace::Engine;
use crate::namespace_path::contradiction;
use crate::sandbox_spec::parse_pod;
use crate::settings::NamespaceFallback;

/// The pod of a namespace, as containerd describes it, with this annotation.
fn pod_of(namespace: &str, annotation: Option<&str>) -> Pod {
    let mut annotations = serde_json::Map::from_iter([
        ("io.kubernetes.cri.container-type".into(), "sandbox".into()),
        ("io.kubernetes.cri.sandbox-namespace".into(), namespace.into()),
    ]);
    annotations.extend(annotation.map(|value| (ANNOTATION.into(), value.into())));
    let spec = serde_json::json!({ "annotations": annotations });
    parse_pod(spec.to_string().as_bytes()).unwrap()
}

fn chosen_by(
    settings: &Settings,
    namespace: &str,
    annotation: Option<&str>,
) -> Result<Option<String>, String> {
    text_of(choose(settings, &pod_of(namespace, annotation)))
}

/// Documents of two teams, and what their pods may name: of a team's own, and of everybody's.
fn tenants() -> (TempDir, Settings) {
    let dir = tempfile::tempdir().unwrap();
    let below = |path: &str| dir.path().join(path);
    for folder in ["teams", "teams/team-a", "teams/team-b", "shared", "outside"] {
        std::fs::create_dir(below(folder)).unwrap();
    }
    for (file, text) in [
        ("teams/team-a.toml", "a"),
        ("teams/team-b.toml", "b: hunter2"),
        ("teams/team-a/more.toml", "more of a"),
        ("teams/team-b/more.toml", "more of b: hunter2"),
        ("teams/_other.toml", "other"),
        ("shared/all.toml", "all"),
        ("outside/x.toml", "hunter2"),
    ] {
        write(&below(file), text);
    }
    let settings = Settings {
        document: Some(below("teams/{namespace}.toml")),
        engine: Some(Engine::Containerd),
        annotation_allow: vec![below("teams/{namespace}"), below("shared")],
        ..Settings::default()
    };
    assert_eq!(contradiction(&settings), None);
    (dir, settings)
}

#[test]
fn a_pod_gets_the_document_of_its_namespace() {
    let (dir, mut settings) = tenants();
    let of = |settings: &Settings, namespace| chosen_by(settings, namespace, None);
    assert_eq!(of(&settings, "team-a"), Ok(Some("a".into())));
    assert_eq!(chosen_by(&settings, "team-a", Some("")), Ok(None));
    let file = choose(&settings, &pod_of("team-a", None)).unwrap().unwrap();
    assert_eq!(file.chosen_by, ChosenBy::Namespace);
    assert_eq!(file.path, dir.path().join("teams/team-a.toml"));
    assert_eq!(file.namespace.unwrap().as_str(), "team-a");

    let message = of(&settings, "team-c").unwrap_err();
    assert!(message.contains("teams/team-c.toml"), "{message}");
    settings.namespace_fallback = NamespaceFallback::None;
    assert_eq!(of(&settings, "team-c"), Ok(None));
    let other = dir.path().join("teams/_other.toml");
    settings.namespace_fallback = NamespaceFallback::Document(other.clone());
    assert_eq!(of(&settings, "team-c"), Ok(Some("other".into())));
    assert_eq!(of(&settings, "team-a"), Ok(Some("a".into())));
    let file = choose(&settings, &pod_of("team-c", None)).unwrap().unwrap();
    assert_eq!((file.chosen_by, file.path), (ChosenBy::Fallback, other.clone()));
    assert_eq!(file.instead_of, Some(dir.path().join("teams/team-c.toml")));
    // What is there must be right: nobody falls back from it.
    let own = dir.path().join("teams/team-a.toml");
    std::fs::set_permissions(&own, PermissionsExt::from_mode(0o666)).unwrap();
    assert!(of(&settings, "team-a").unwrap_err().contains("mode 0666"));
    std::fs::remove_file(&other).unwrap();
    assert!(of(&settings, "team-c").unwrap_err().contains("_other.toml"));
    let paths = NamespacePaths::of(&settings).document.unwrap();
    let teams = namespaces(&NodeRoot::open(None).unwrap(), &paths);
    let names: Vec<String> = teams.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["team-a", "team-b"]);
}

/// After a start of the node its documents come late, and nobody may go out without them.
#[test]
fn a_directory_that_is_not_there_is_late() {
    let (dir, mut settings) = tenants();
    let directory = dir.path().join("teams");
    std::fs::rename(&directory, dir.path().join("away")).unwrap();
    let of = |settings: &Settings| chosen_by(settings, "team-a", None);
    settings.namespace_fallback = NamespaceFallback::None;
    assert!(of(&settings).unwrap_err().contains("teams: No such file"));
    let shared = dir.path().join("shared/all.toml");
    settings.namespace_fallback = NamespaceFallback::Document(shared);
    assert!(of(&settings).unwrap_err().contains("teams: No such file"));
    settings.missing_document = Some(registry_config::NodeError::new("late"));
    let late = Ok(Some("node-error = \"late\"\n".to_owned()));
    assert_eq!(of(&settings), late);
    // The node agent is told what the sandbox may get when the directory has come.
    let file = choose(&settings, &pod_of("team-a", None)).unwrap().unwrap();
    assert_eq!(file.path, directory.join("team-a.toml"));
    assert_eq!(file.fallback, Some(dir.path().join("shared/all.toml")));
    std::fs::create_dir(&directory).unwrap();
    assert_eq!(of(&settings), Ok(Some("all".into())));
    settings.namespace_fallback = NamespaceFallback::Refuse;
    assert_eq!(of(&settings), late);
    settings.namespace_fallback = NamespaceFallback::None;
    assert_eq!(of(&settings), Ok(None));
    // Who can rename in it chooses for every namespace.
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    assert!(of(&settings).unwrap_err().contains("mode 0777"));
}

#[test]
fn an_annotation_reaches_no_other_namespace() {
    let (dir, settings) = tenants();
    let named = |path: &str| {
        let path = format!("{}/{path}", dir.path().display());
        chosen_by(&settings, "team-a", Some(&path))
    };
    for (path, text) in [
        ("teams/team-a/more.toml", "more of a"),
        ("teams//./team-a/./more.toml", "more of a"),
        ("shared/all.toml", "all"),
    ] {
        assert_eq!(named(path), Ok(Some(text.into())), "{path}");
    }
    for path in [
        "teams/team-b/more.toml",
        "teams/team-b.toml",
        "teams/team-a.toml",
        "teams/_other.toml",
        "teams/{namespace}/more.toml",
        "teams/team-a",
        "teams/team-ab/more.toml",
        "outside/x.toml",
        "teams/team-a/../team-b/more.toml",
        "shared/../teams/team-b.toml",
    ] {
        let message = named(path).unwrap_err();
        assert!(!message.contains("hunter2"), "{message}");
        let is_of_team = message.contains("annotation-allow for the namespace team-a");
        assert!(is_of_team || path.contains(".."), "{message}");
    }
    let links = [
        ("teams/team-a/b.toml", "../team-b.toml"),
        ("teams/team-a/more-b.toml", "../team-b/more.toml"),
        ("teams/team-a/b", "../team-b"),
        ("shared/b.toml", "../teams/team-b.toml"),
        ("shared/teams", "../teams"),
    ];
    for (link, target) in links {
        symlink(target, dir.path().join(link)).unwrap();
    }
    for path in [
        "teams/team-a/b.toml",
        "teams/team-a/more-b.toml",
        "teams/team-a/b/more.toml",
        "shared/b.toml",
        "shared/teams/team-b.toml",
        "shared/teams/team-b/more.toml",
    ] {
        assert!(named(path).unwrap_err().contains("symbolic link"), "{path}");
    }
}

/// The names alone decide whose a document is, so none is a link, whatever it leads to.
#[test]
fn a_document_of_a_namespace_is_no_link() {
    let (dir, settings) = tenants();
    let teams = dir.path().join("teams");
    for (name, target) in [
        ("team-c", "team-b.toml"),
        ("team-d", "team-d.toml.real"),
        ("team-e", "/proc/self/environ"),
    ] {
        write(&teams.join("team-d.toml.real"), "d");
        symlink(target, teams.join(format!("{name}.toml"))).unwrap();
        let message = chosen_by(&settings, name, None).unwrap_err();
        assert!(message.contains("symbolic link"), "{message}");
    }
    // The way to the directory is the administrator's.
    symlink("teams", dir.path().join("linked")).unwrap();
    let linked =
        Settings { document: Some(dir.path().join("linked/{namespace}.toml")), ..settings.clone() };
    assert_eq!(chosen_by(&linked, "team-a", None), Ok(Some("a".into())));

    // But no way of the allow-list leads there by links of the administrator either.
    let shared = dir.path().join("shared");
    std::fs::rename(&shared, dir.path().join("away")).unwrap();
    let named = |settings: &Settings, path: &str| {
        let path = format!("{}/{path}", dir.path().display());
        chosen_by(settings, "team-a", Some(&path))
    };
    for target in ["teams", "teams/team-b", "."] {
        symlink(target, &shared).unwrap();
        for path in ["shared/team-b.toml", "shared/teams/team-b.toml", "shared/more.toml"] {
            let message = named(&settings, path).unwrap_err();
            assert!(message.contains("must not contain each other"), "{message}");
        }
        std::fs::remove_file(&shared).unwrap();
    }
    std::fs::create_dir(&shared).unwrap();
    write(&shared.join("more.toml"), "shared");
    assert_eq!(named(&settings, "shared/more.toml"), Ok(Some("shared".into())));
    assert!(named(&linked, "teams/team-a/more.toml").is_ok());
}

/// Without a namespace that the engine wrote, no file is touched at all: the directories are not
/// even there.
#[test]
fn nothing_is_opened_for_an_unknown_namespace() {
    let settings = |engine| Settings {
        document: Some("/nonexistent/{namespace}.toml".into()),
        annotation_allow: vec!["/nonexistent/{namespace}".into(), "/shared".into()],
        namespace_fallback: NamespaceFallback::None,
        missing_document: Some(registry_config::NodeError::new("late")),
        engine,
        ..Settings::default()
    };
    let known = settings(Some(Engine::Containerd));
    let unknown = settings(None);
    let other = settings(Some(Engine::CriO));
    for annotation in [None, Some("/nonexistent/team-a/x.toml"), Some("/shared/x.toml")] {
        for name in ["", ".", "..", "team-a/../team-b", "a\n", "TEAM-A", "a.toml\0"] {
            let message = chosen_by(&known, name, annotation).unwrap_err();
            let rule = "the value of io.kubernetes.cri.sandbox-namespace is no name";
            assert!(message.contains(rule), "{message}");
        }
        let pod = annotation.map(Pod::with_document).unwrap_or_default();
        let message = text_of(choose(&known, &pod)).unwrap_err();
        assert!(message.contains("has no io.kubernetes.cri.sandbox"), "{message}");
        let message = chosen_by(&unknown, "team-a", annotation).unwrap_err();
        assert!(message.contains("do not name the container engine"), "{message}");
        let message = chosen_by(&other, "team-a", annotation).unwrap_err();
        assert!(message.contains("has no io.kubernetes.pod.namespace"), "{message}");
    }
}

/// While one thread puts other things in the place of team-a's document and directory, no read may
/// ever come from team-b's.
#[test]
fn exchanging_documents_underneath_gains_nothing() {
    let (dir, settings) = tenants();
    let teams = dir.path().join("teams");
    let pairs = [("team-a.toml", "decoy.toml"), ("team-a", "decoy")];
    symlink("team-b.toml", teams.join("decoy.toml")).unwrap();
    symlink("team-b", teams.join("decoy")).unwrap();
    let annotation = teams.join("team-a/more.toml");
    let stop = AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (real, decoy) in pairs.map(|(a, b)| (teams.join(a), teams.join(b))) {
                    renameat_with(CWD, &real, CWD, &decoy, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let mut others = Vec::new();
        for round in 0..20_000 {
            let annotation = annotation.to_str().filter(|_| round % 2 == 0);
            match chosen_by(&settings, "team-a", annotation) {
                Ok(Some(text)) if text == "a" || text == "more of a" => read += 1,
                Ok(other) => others.push(other),
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(others, []);
    });
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}
