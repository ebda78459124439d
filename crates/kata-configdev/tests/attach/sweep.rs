//! What `sweep` removes, and what it leaves.

use super::*;

#[test]
fn sweep_removes_the_dead_and_keeps_the_living() {
    let folder = node("");
    let images = folder.path("run/kata-containers/shared/initdata");
    let name = |suffix: &str| format!("test-sweep-{}-{suffix}", std::process::id());
    let kinds = [
        ("bundle", "imagepuller.img"),
        ("dead", "imagepuller.img"),
        ("directory", "imagepuller.img"),
        ("go", "data.img"),
        ("others", "image"),
        ("process", "imagepuller.img"),
        ("rust", "initdata.image"),
    ];
    for (kind, file) in kinds {
        let directory = images.join(name(kind));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(file), "").unwrap();
    }
    let bundle = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    std::fs::create_dir_all(folder.path(bundle).join(name("bundle"))).unwrap();
    let kata = ["run/vc/vm", "run/vc/sbs"].map(|place| folder.path(place).join(name("directory")));
    for path in &kata {
        std::fs::create_dir_all(path).unwrap();
    }
    let mut process = Command::new("sh")
        .args(["-c", "read line", "sh", "-name"])
        .arg(format!("sandbox-{},debug-threads=on", name("process")))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let root = folder.text("run");
    let left = || {
        let is_left = |kind: &&str| images.join(name(kind)).exists();
        kinds.map(|(kind, _)| kind).into_iter().filter(is_left).collect::<Vec<_>>()
    };

    // Everything is young.
    let young = run(&["sweep", "--run-root", &root]);
    assert_eq!((young.code, young.stdout.as_str()), (0, "0 images removed, 6 kept, 0 failed\n"));
    assert_eq!(left().len(), kinds.len());
    // Where not every process can be seen, nobody can say that Kata's directories are remains.
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let sees_all = namespace == Path::new("pid:[4026531836]");
    let (removed, kept, remains) = match sees_all {
        true => (
            json!([name("dead"), name("directory"), name("go"), name("rust")]),
            json!([name("bundle"), name("process")]),
            json!([{"sandbox_id": name("directory"), "paths": kata}]),
        ),
        false => (
            json!([name("dead"), name("go"), name("rust")]),
            json!([name("bundle"), name("directory"), name("process")]),
            json!([]),
        ),
    };
    let old = run(&["sweep", "--run-root", &root, "--min-age", "0", "--json"]);
    let expected = json!({"removed": removed, "kept": kept, "failed": [], "remains": remains});
    assert_eq!(old.json(), expected);
    assert!(kata.iter().all(|path| path.exists()), "they are Kata's");
    if sees_all {
        let text = run(&["sweep", "--run-root", &root, "--min-age", "0"]);
        let [vm, sbs] = kata.each_ref().map(|path| path.display());
        let line = format!("{}: gone; Kata left {vm}, {sbs}\n", name("directory"));
        assert!(text.stdout.starts_with(&line), "{}", text.stdout);
    }

    drop(process.stdin.take());
    process.wait().unwrap();
    std::fs::remove_dir_all(folder.path("run/vc")).unwrap();
    std::fs::remove_dir_all(folder.path("run/containerd")).unwrap();
    let last = run(&["sweep", "--run-root", &root, "--min-age", "0"]);
    let count = if sees_all { 2 } else { 3 };
    last.prints_last(&format!("{count} images removed, 0 kept, 0 failed\n"));
    assert_eq!(left(), ["others"]);
    // Nothing there at all is nothing to do.
    std::fs::remove_dir_all(folder.path("run/kata-containers")).unwrap();
    assert_eq!(run(&["sweep", "--run-root", &root]).stdout, "0 images removed, 0 kept, 0 failed\n");
}

#[test]
fn detach_and_sweep_follow_no_link() {
    let folder = node("");
    std::fs::create_dir_all(folder.path("run/kata-containers/shared/initdata")).unwrap();
    std::fs::create_dir(folder.path("elsewhere")).unwrap();
    let victim = folder.file("elsewhere/imagepuller.img", "untouched");
    symlink(folder.path("elsewhere"), folder.path("run/kata-containers/shared/initdata/box-1"))
        .unwrap();
    let root = folder.text("run");
    let refused = run(&["detach", "--sandbox-id", "box-1", "--run-root", &root]);
    refused.fails(69, &[]);
    let swept = run(&["sweep", "--run-root", &root, "--min-age", "0"]);
    assert_eq!((swept.code, swept.stdout.as_str()), (69, "0 images removed, 0 kept, 1 failed\n"));
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "untouched");
}

#[test]
fn sweep_goes_on_behind_what_it_cannot_remove() {
    let folder = node("");
    let images = folder.path("run/kata-containers/shared/initdata");
    let name = |suffix: &str| format!("test-swept-{}-{suffix}", std::process::id());
    for kind in ["directory", "mode", "part", "whole"] {
        std::fs::create_dir_all(images.join(name(kind))).unwrap();
    }
    let file = |kind: &str, file: &str| images.join(name(kind)).join(file);
    std::fs::create_dir(file("directory", "imagepuller.img")).unwrap();
    std::fs::write(file("mode", "imagepuller.img"), "").unwrap();
    std::fs::write(file("part", ".kata-configdev.7.0"), "").unwrap();
    std::fs::write(file("whole", "imagepuller.img"), "").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o775);
    std::fs::set_permissions(images.join(name("mode")), mode).unwrap();

    let root = folder.text("run");
    let arguments = ["sweep", "--run-root", &root, "--min-age", "0", "--json"];
    let swept = run(&arguments);
    swept.ends(69);
    let report = swept.json();
    assert_eq!(report["removed"], json!([name("part"), name("whole")]));
    assert_eq!(report["kept"], json!([]));
    for (index, kind, fault) in [(0, "directory", "directory"), (1, "mode", "mode 0775")] {
        let failure = &report["failed"][index];
        assert_eq!(failure["sandbox_id"], name(kind));
        let error = failure["error"].as_str().unwrap();
        assert!(error.contains(fault), "{error}");
        swept.says(&[error]);
    }
    assert!(!images.join(name("part")).exists() && !images.join(name("whole")).exists());
    let text = run(&arguments[..5]);
    assert_eq!((text.code, text.stdout.as_str()), (69, "0 images removed, 0 kept, 2 failed\n"));
}
