//! `imagepuller lint`: a layout and a layer, for people and for programs.

use fault_registry::{Action, Bytes, Content, Image, Layer, Login, Script, What};
use vm_harness::archive::Tar;
use vm_harness::layout::{Compression, of_archives};

use crate::support::{PASSWORD, USER, imagepuller, misbehaving, names};

#[test]
fn a_layout_and_a_layer_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let odd = Tar::default().file("a", "").file("a", "again").bytes();
    let plain = Tar::default().file("b", "\u{1b}[31m").bytes();
    let file = folder.path().join("layer.tar");
    std::fs::write(&file, &odd).unwrap();
    let layers = vec![(odd, Compression::Zstd), (plain, Compression::Gzip)];
    let layout = of_archives(&folder.path().join("image"), layers).unwrap();
    let image = layout.path.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = imagepuller(arguments).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };

    let (code, text) = run(&["lint", image]);
    let line = "\"a\": is there twice; the last one counts, and some programs refuse it\n";
    assert_eq!((code, text), (0, format!("{}: {line}", layout.layers[0])));
    let (code, text) = run(&["lint", "--strict", file.to_str().unwrap()]);
    assert_eq!((code, text), (65, format!("{}: {line}", file.display())));
    let (code, text) = run(&["lint", "--json", image]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 0);
    assert_eq!(report[0]["remarks"][0]["path"], "a");
    assert_eq!((&report[1]["entries"], &report[1]["encrypted"]), (&1.into(), &false.into()));

    // What the manifest names is not what is there.
    let blob = layout.path.join("blobs/sha256").join(&layout.manifest[7..]);
    std::fs::write(&blob, "{}").unwrap();
    let (code, text) = run(&["lint", image]);
    assert!(code == 65 && text.contains(blob.to_str().unwrap()), "{text}");
    let (code, text) = run(&["lint", folder.path().to_str().unwrap()]);
    assert!(code == 65 && text.contains("skopeo copy"), "{text}");
    let (code, _) = run(&["lint", "--platform", "x", image]);
    assert_eq!(code, 64);
    std::fs::write(&file, "no archive").unwrap();
    let (code, text) = run(&["lint", file.to_str().unwrap()]);
    assert!(code == 65 && text.contains("refused: the archive ends in a header"), "{text}");
}

/// An image had to be copied by another program before it could be looked at.
#[test]
fn an_image_in_a_registry_is_looked_at_layer_by_layer() {
    let odd = Tar::default().file("a", "").file("a", "again").bytes();
    let refused = Tar::default().file("../x", "").bytes();
    let image = |layers: &[&[u8]], faults: &[Action]| {
        let layers = layers.iter().map(|plain| Layer::gzip_of(plain).unwrap());
        let mut content = Content::default();
        let digest = Image::new(layers.collect()).publish(&mut content);
        let mut script = Script::new().login(Login::basic(USER, PASSWORD));
        if !faults.is_empty() {
            script = script.always(What::Layer(0), faults.to_vec());
        }
        let (registry, document) = misbehaving(content, script);
        let name = format!("localhost:{}/team/app@{digest}", registry.address().port());
        (registry, document, name)
    };
    let lint = |document: &str, arguments: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("imagepuller.toml");
        std::fs::write(&file, document).unwrap();
        let mut command = imagepuller(["lint", "--config"]);
        command.arg(&file).args(arguments).current_dir(&folder);
        let output = command.output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!text.contains(PASSWORD), "{text}");
        assert_eq!(names(folder.path()), ["imagepuller.toml"]);
        (output.status.code().unwrap(), text)
    };

    let (_registry, document, name) = image(&[&odd, &[0; 1024]], &[]);
    let (code, text) = lint(&document, &[&name]);
    let twice = "\"a\": is there twice; the last one counts, and some programs refuse it\n";
    assert!(code == 0 && text.ends_with(twice) && text.lines().count() == 1, "{text}");
    assert_eq!(lint(&document, &["--strict", &name]).0, 65);
    let (code, text) = lint(&document, &["--json", &name]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, report.as_array().unwrap().len()), (0, 2));
    assert_eq!((&report[0]["entries"], &report[1]["entries"]), (&2.into(), &0.into()));
    let (code, text) = lint(&document.replace(PASSWORD, "wrong"), &[&name]);
    assert!(code == 69 && text.contains("refused the credentials"), "{text}");

    // What one layer says is not lost where the next one is refused.
    let (_registry, document, name) = image(&[&odd, &refused], &[]);
    let (code, text) = lint(&document, &[&name]);
    assert!(code == 65 && text.contains(twice) && text.contains("refused: "), "{text}");
    // Nothing is said of bytes that are not the image's.
    let flipped = [Action::Body(Bytes::Flipped)];
    let (_registry, document, name) = image(&[&odd], &flipped);
    let (code, text) = lint(&document, &["--attempts", "1", &name]);
    assert!(
        code == 65 && text.contains("a layer of localhost") && !text.contains("twice"),
        "{text}"
    );
    // A name that is neither.
    let output = imagepuller(["lint", "no-such-file"]).output().unwrap();
    assert_eq!(output.status.code(), Some(65));
}
