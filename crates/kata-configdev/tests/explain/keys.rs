//! `explain` and `[decryption-keys]`.

use serde_json::json;

use crate::command::{Folder, run};
use crate::explain::{DOCUMENT, explain, row};

/// The same choice as the puller's: the most specific table first, and no other repository's.
#[test]
fn the_keys_for_encrypted_layers_are_counted() {
    const KEY: &str = "aHVudGVyMi1rZXk=";
    let document = format!(
        "[decryption-keys]\nkeys = [\"{KEY}\"]\n\
         [decryption-keys.\"Registry.corp/team\"]\nkeys = [\"{KEY}\", \"kbs:///a/b/c\"]\n\
         [decryption-keys.\"registry.corp/other\"]\nkeys = [\"{KEY}\"]\n"
    );
    let team = json!({"measured": false, "table": "Registry.corp/team", "count": 2});
    let all = json!({"measured": false, "table": null, "count": 1});
    for (document, image, told, tables) in [
        (
            document.as_str(),
            "registry.corp/team/app:1",
            "2 of table \"Registry.corp/team\", then 1 for every image",
            json!([team, all]),
        ),
        (&document, "registry.corp/team-b/app", "1 for every image", json!([all])),
    ] {
        let (text, json) = explain(document, image);
        let expected = format!("for encrypted layers: {told}");
        assert_eq!(row(&text, "keys"), expected, "{image}");
        assert_eq!(json["decryption_keys"], tables, "{image}");
        assert!(!text.contains(KEY) && !json.to_string().contains(KEY));
    }
    let (text, json) = explain(DOCUMENT, "registry.corp/app");
    assert!(!text.contains("encrypted layers"), "{text}");
    assert_eq!(json["decryption_keys"], json!([]));
    // The owner's come first.
    let folder = Folder::new();
    let config = folder.file("imagepuller.toml", &document);
    let owner = "[decryption-keys.\"registry.corp\"]\nkeys = [\"kbs:///a/b/d\"]\n";
    let measured = folder.file("measured.toml", owner);
    let arguments = ["explain", "--config", &config, "--measured", &measured];
    let text = run(&[&arguments[..], &["registry.corp/app"]].concat()).stdout;
    assert_eq!(
        row(&text, "keys"),
        "for encrypted layers: 1 of table \"registry.corp\" in the measured document, then 1 for \
         every image"
    );
}
