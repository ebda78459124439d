//! Without a document, the node's own one counts.

use serde_json::json;

use crate::command::{Folder, run};

/// The document had to be named although the settings name it.
#[test]
fn without_a_document_it_is_the_one_of_the_settings() {
    let folder = Folder::new();
    let document = folder.file("imagepuller.toml", super::DOCUMENT);
    folder.set_mode("imagepuller.toml", 0o600);
    let settings = folder.file("config.toml", format!("document = {document:?}\n"));
    let image = "registry.corp/app";
    let explain = |more: &[&str]| run(&[&["explain", "--settings", &settings], more].concat());
    let text = explain(&[image]);
    text.succeeds();
    let named = run(&["explain", "--config", &document, image]);
    let line = format!("document    {document}, by {settings}\n");
    assert_eq!(text.stdout.replacen(&line, "", 1), named.stdout);
    assert!(text.stdout.starts_with(&format!("Registry.corp\n{line}")), "{text:?}");
    let report = explain(&["--json", image]).json();
    assert_eq!(report["document"], json!({"path": document, "settings": settings}));
    let by_variable = crate::command::PROGRAM
        .command(&["explain", image])
        .env("KATA_CONFIGDEV_CONFIG", &settings)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(by_variable.stdout).unwrap(), text.stdout);

    // Whose document it would be is not known.
    for own in [
        String::new(),
        "document = \"/etc/x/{namespace}.toml\"\nengine = \"containerd\"\n".to_owned(),
    ] {
        folder.file("config.toml", own);
        let refused = explain(&[image]);
        refused.fails(64, &[&settings, "--config", "--sandbox"]);
    }
    // The wrapper would refuse it, too.
    folder.file("config.toml", format!("document = {document:?}\n"));
    folder.set_mode("imagepuller.toml", 0o666);
    explain(&[image]).fails(65, &["its mode 0666"]);
    explain(&["--config", &document, image]).fails(64, &["leave --settings"]);
}
