//! Keys that are for some images only.

use super::*;

fn names(names: &[&str]) -> Vec<RegistryName> {
    names.iter().map(|name| prefix(name).unwrap()).collect()
}

fn annotated(images: &str) -> String {
    manifest("Opaque", &[("k", b"kbs:///a/b/c")])
        .replace("  name: keys", &format!("  name: keys\n  annotations: {{images: {images:?}}}"))
}

fn for_images(text: &str, only: &[&str]) -> Imported {
    let source = Source::File { name: "FILE", text: text.as_bytes() };
    checked(import(&[source], &names(only)))
}

#[test]
fn keys_are_for_what_the_command_or_their_secret_says() {
    for (text, only, expected, what) in [
        ("kbs:///a/b/c", &[][..], &[][..], ""),
        ("kbs:///a/b/c", &["r.corp/a"], &["r.corp/a"], ", for r.corp/a"),
        (
            &annotated("r.corp/b, r.corp/a r.corp/b"),
            &[],
            &["r.corp/a", "r.corp/b"],
            ", for r.corp/a, r.corp/b",
        ),
        (&annotated("r.corp"), &["r.corp."], &["r.corp"], ", for r.corp."),
    ] {
        let imported = for_images(text, only);
        assert_eq!(imported.keys[0].images, names(expected));
        let told = told(&imported);
        let end = format!("a reference, kbs:///a/b/c{what}");
        assert!(told.len() == 1 && told[0].ends_with(&end), "{told:?}");
    }
    let other = for_images(&annotated("r.corp/b"), &["r.corp/a"]);
    assert_eq!(other.keys[0].images, names(&["r.corp/a"]));
    assert_eq!(
        told(&other)[0],
        "Note FILE: secret team/keys: the secret says r.corp/b; its keys are for what this import \
        was told"
    );
}

#[test]
fn an_annotation_that_cannot_be_read_widens_nothing() {
    for (images, why) in [
        ("", "has not between 1 and 256 names of registries or repositories"),
        (".corp", "has .corp: names no single host"),
        ("https://r.corp", "has https://r.corp: "),
        ("r.corp/A", "has r.corp/A: "),
    ] {
        let imported = for_images(&annotated(images), &[]);
        assert!(imported.keys.is_empty(), "{images}");
        let told = told(&imported);
        let begin = format!(
            "Lost FILE: secret team/keys: its keys are left out: its annotation \"images\" {why}"
        );
        assert!(told.len() == 1 && told[0].starts_with(&begin), "{told:?}");
    }
    // The next secret is read as if it were alone.
    let both = format!("{}---\n{}", annotated("r.corp/a"), manifest("Opaque", &[("k", PEM)]));
    let imported = for_images(&both, &[]);
    assert_eq!(imported.keys[1].images, []);
}

#[test]
fn one_key_may_be_for_several_secrets_images() {
    let both = format!("{}---\n{}", annotated("r.corp/a"), annotated("r.corp/b"));
    let imported = for_images(&both, &[]);
    assert_eq!(imported.keys.len(), 2);
    let complete = put_below(b"", &imported.keys).unwrap();
    assert_eq!(complete.document.decryption_keys.of.len(), 2);
    let again = for_images(&both, &["r.corp/a"]);
    assert_eq!(again.keys.len(), 1);
}

#[test]
fn keys_go_to_the_tables_of_their_images() {
    let keys = for_images("kbs:///a/b/c", &["R.corp./a"]).keys;
    let own = |name: &str, list: &str| format!("[decryption-keys.\"{name}\"]\nkeys = [{list}]\n");
    let one = "\n  \"kbs:///a/b/c\",\n";
    let new = own("R.corp./a", one);
    let before = own("r.corp/a", one);
    for (document, expected) in [
        ("", new.clone()),
        (
            "[decryption-keys]\nkeys = [\"a2V5\"]",
            format!("[decryption-keys]\nkeys = [\n  \"a2V5\",\n]\n\n{new}"),
        ),
        (
            "[decryption-keys.\"r.corp/a\"]\nkeys = [\"a2V5\"]\n",
            own("r.corp/a", "\n  \"kbs:///a/b/c\",\n  \"a2V5\",\n"),
        ),
        ("[decryption-keys.'r.corp/a']\n", before.clone()),
        (
            "decryption-keys = { 'r.corp/b' = { keys = [] } }",
            format!("{new}\n{}", own("r.corp/b", "")),
        ),
        ("decryption-keys = { 'r.corp/a' = {} }", before.clone()),
        ("decryption-keys.'r.corp/a'.keys = ''\n", before),
    ] {
        let complete = put_below(document.as_bytes(), &keys)
            .unwrap_or_else(|error| panic!("{document}: {error}"));
        assert_eq!(str::from_utf8(&complete.text).unwrap(), expected);
        let own = Document::parse(document.as_bytes()).unwrap().document;
        let name = prefix("r.corp/a").unwrap();
        let before = own.decryption_keys.of.get(&name).map_or(0, Vec::len);
        assert_eq!(complete.document.decryption_keys.of[&name].len(), before + 1);
        let all = |document: &Document| document.decryption_keys.all.len();
        assert_eq!(all(&complete.document), all(&own));
        let again = put_below(&complete.text, &keys).unwrap();
        assert_eq!(*again.text, *complete.text);
    }
}

/// Beside tables of some images, where the list for all has no place yet.
#[test]
fn keys_for_every_image_join_tables_of_some() {
    let keys = for_images("kbs:///a/b/c", &[]).keys;
    for document in [
        "[decryption-keys.\"r.corp/a\"]\nkeys = [\"a2V5\"]\n",
        "[decryption-keys.\"r.corp/a\"]\n",
        "[ decryption-keys . \"r.corp/a\" ]",
        "decryption-keys.\"r.corp/a\".keys = [\"a2V5\"] # kept\n",
        "decryption-keys = { \"r.corp/a\" = { keys = [\"a2V5\"] } }\n",
        "decryption-keys.keys = \" \"",
        "[decryption-keys.\"r.corp/a\"]\n[decryption-keys] # kept\n",
    ] {
        let complete = put_below(document.as_bytes(), &keys)
            .unwrap_or_else(|error| panic!("{document}: {error}"));
        assert_eq!(complete.document.decryption_keys.all.len(), 1, "{document}");
        let own = Document::parse(document.as_bytes()).unwrap().document;
        let of = |document: &Document| {
            let of = document.decryption_keys.of.values();
            of.map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(of(&complete.document), of(&own), "{document}");
    }
}

#[test]
fn a_document_has_room_for_so_many_tables() {
    let tables: String = (0..registry_config::MAX_DECRYPTION_TABLES)
        .map(|number| format!("[decryption-keys.\"r.corp/{number}\"]\n"))
        .collect();
    let keys = for_images("kbs:///a/b/c", &["r.corp/0", "r.corp/more"]).keys;
    let complete = put_below(tables.as_bytes(), &keys).unwrap();
    assert_eq!(
        complete.findings[0].to_string(),
        "FILE: left out: a document has at most 256 tables of decryption keys"
    );
    assert_eq!(complete.findings.len(), 1);
    let name = prefix("r.corp/0").unwrap();
    assert_eq!(complete.document.decryption_keys.of[&name].len(), 1);
}

/// Keys for every image, for a table that may be there, and for one that is not, all at once.
#[test]
fn keys_of_every_kind_join_every_form_of_document() {
    let keys = [&[][..], &["r.corp/a"], &["r.corp/b", "r.corp"]]
        .map(|only| for_images("kbs:///a/b/c", only).keys)
        .concat();
    for document in [
        "",
        "# kept",
        "[decryption-keys]\n",
        "[decryption-keys]\n[decryption-keys.'r.corp/a']\n",
        "[decryption-keys]\n'r.corp/a'.keys = []\n",
        "[decryption-keys]\n'r.corp/a' = {}\n[extra-env]\n",
        "[decryption-keys.'r.corp/a']\nkeys = 'a2V5'\n[extra-env]",
        "decryption-keys.'r.corp/a'.keys = []",
        "decryption-keys.'r.corp/a' = {}\n[extra-env]\n",
        "decryption-keys = {}\n",
        "decryption-keys = { keys = [], 'R.corp/a' = { keys = '' } }\n",
        "decryption-keys = { 'r.corp/a'.keys = [] } # kept",
    ] {
        let own = Document::parse(document.as_bytes()).unwrap().document;
        let complete = put_below(document.as_bytes(), &keys)
            .unwrap_or_else(|error| panic!("{document}: {error}"));
        let count = |document: &Document| -> usize {
            let tables = document.decryption_keys.tables();
            tables.map(|(_, keys)| keys.len()).sum()
        };
        assert_eq!(count(&complete.document), count(&own) + 4, "{document}");
        assert_eq!(complete.document.decryption_keys.of.len(), 3, "{document}");
        assert!(complete.findings.is_empty(), "{document}");
    }
}
