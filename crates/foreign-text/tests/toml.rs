//! A TOML file taken key by key.
#![cfg(feature = "toml")]
#![allow(clippy::unwrap_used, reason = "tests")]

use foreign_text::toml::{Tree, join};

#[test]
fn what_is_taken_is_gone_and_the_rest_has_its_lines() {
    let text = b"b = true\na = \"\\u0041\"\n\n[c]\nd = [1,\n \"x\"]\n[c.e]\n['x.y'.z]\n";
    let tree = Tree::parse(text).unwrap();
    let mut table = tree.table();
    assert_eq!((table.len(), table.line, table.path.as_str()), (4, 0, ""));
    let a = table.take("a").unwrap();
    assert_eq!((a.text(), a.line, a.path.as_str(), a.key), (Ok("A"), 2, "a", "a"));
    assert_eq!(a.secret().unwrap().as_str(), "A");
    assert!(table.take("a").is_none() && table.take("A").is_none());
    assert_eq!(table.take("b").unwrap().flag(), Ok(true));

    let mut c = table.take("c").unwrap().table().unwrap();
    assert_eq!((c.line, c.path.as_str()), (4, "c"));
    let items = c.take("d").unwrap().items().unwrap();
    let places: Vec<_> = items.iter().map(|item| (item.line, item.path.as_str())).collect();
    assert_eq!(places, [(5, "c.d, item 1"), (6, "c.d, item 2")]);
    assert_eq!((items[0].text().is_err(), items[1].text()), (true, Ok("x")));
    let left: Vec<_> = c.rest().map(|field| (field.key, field.line, field.path)).collect();
    assert_eq!(left, [("e", 7, "c.e".to_owned())]);

    let x = table.rest().next().unwrap();
    let z = x.table().unwrap().rest().next().unwrap();
    assert_eq!((z.line, z.path.as_str(), z.is_table()), (8, "\"x.y\".z", true));
    assert!(z.table().unwrap().is_empty());
}

#[test]
fn a_wrong_type_says_both() {
    let tree = Tree::parse(b"a = 1").unwrap();
    let mut table = tree.table();
    let a = table.take("a").unwrap();
    for (wrong, want) in [
        (a.text().err(), "expected string, found integer"),
        (a.secret().err(), "expected string, found integer"),
        (a.flag().err(), "expected boolean, found integer"),
        (a.table().err(), "expected table, found integer"),
        (a.items().err(), "expected array, found integer"),
        (Some(a.wrong_type("list of names")), "expected list of names, found integer"),
    ] {
        assert_eq!(wrong.unwrap().to_string(), want);
    }
}

#[test]
fn what_is_not_toml_has_a_line_and_is_not_quoted() {
    for (text, line) in [
        (&b"a = 1\nb = hunter2"[..], 2),
        (b"a = 1\na = \"hunter2\"", 2),
        (b"a\n\xff", 2),
        (b"[a]\n\n[a]", 3),
    ] {
        let error = Tree::parse(text).err().unwrap();
        assert_eq!(error.line, line);
        assert!(!error.message.contains("hunter2") && !error.message.is_empty());
    }
}

#[test]
fn a_key_is_shown_as_toml_writes_it() {
    let long = "a.".repeat(200);
    let cut = format!("x.\"{}…\"", "a.".repeat(150));
    for (path, key, shown) in [
        ("", "plain-http_1", "plain-http_1"),
        ("registries", "registry.corp", "registries.\"registry.corp\""),
        ("x", "", "x.\"\""),
        ("x", "a\"b\\c", "x.\"a\\\"b\\\\c\""),
        ("x", "a\u{1b}[31m\n", "x.\"a\\u{1b}[31m\\n\""),
        ("x", "robot:hunter2@registry.corp", "x.\"[redacted]@registry.corp\""),
        ("x", "\u{202e}é", "x.\"\\u{202e}é\""),
        ("x", &long, &cut),
    ] {
        assert_eq!(join(path, key), shown);
    }
}
