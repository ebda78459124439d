//! `imagepuller lint`: a layout and a layer, for people and for programs.

use vm_harness::archive::Tar;
use vm_harness::layout::{Compression, of_archives};

use crate::support::imagepuller;

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
    assert_eq!(
        (&report[1]["entries"], &report[1]["encrypted"]),
        (&1.into(), &false.into())
    );

    // What the manifest names is not what is there.
    let blob = layout.path.join("blobs/sha256").join(&layout.manifest[7..]);
    std::fs::write(&blob, "{}").unwrap();
    let (code, text) = run(&["lint", image]);
    assert!(
        code == 65 && text.contains(blob.to_str().unwrap()),
        "{text}"
    );
    let (code, text) = run(&["lint", folder.path().to_str().unwrap()]);
    assert!(code == 65 && text.contains("skopeo copy"), "{text}");
    let (code, _) = run(&["lint", "--platform", "x", image]);
    assert_eq!(code, 64);
    std::fs::write(&file, "no archive").unwrap();
    let (code, text) = run(&["lint", file.to_str().unwrap()]);
    assert!(
        code == 65 && text.contains("refused: the archive ends in a header"),
        "{text}"
    );
}
