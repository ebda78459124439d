//! What is read as JSON, what is not, and that `serde_json` reads the same.
#![allow(clippy::unwrap_used, reason = "tests")]

use foreign_text::json::{
    Ambiguous, Duplicates, JsonRule, Kind, Limits, Object, Text, Value, is_same_but_for_case, read,
    read_object,
};
use proptest::prelude::*;

const LIMITS: Limits = Limits { bytes: 1000, values: 8, depth: 5 };

fn refused(text: &str) -> String {
    match read(text.as_bytes(), LIMITS, Duplicates::Refused) {
        Ok(_) => panic!("{text} is read"),
        Err(error) => error.to_string(),
    }
}

/// What Go's and most other parsers make of it.
fn plain(value: &Value<'_>) -> serde_json::Value {
    match &value.kind {
        Kind::Null => serde_json::Value::Null,
        Kind::Bool(bool) => (*bool).into(),
        Kind::Number(number) => serde_json::from_str(number).unwrap(),
        Kind::Text(text) => (**text).into(),
        Kind::Array(values) => values.iter().map(plain).collect(),
        Kind::Object(object) => {
            let members = object.members();
            members.map(|(name, value)| (name, plain(value))).collect()
        }
    }
}

fn object(text: &'static str) -> Object<'static> {
    match read(text.as_bytes(), LIMITS, Duplicates::Kept).unwrap().kind {
        Kind::Object(object) => object,
        _ => panic!("{text}"),
    }
}

#[test]
fn what_every_parser_reads_alike_is_read() {
    for text in [
        r#"{"layers":[{"size":1},{"a":{"Size":"a","size":"b"}}]}"#,
        r#" [1,{"a":1},{"a":1}] "#,
        "\t\r\n{ \"a\" : [ ] , \"b\" : { } }\n",
        r#""""#,
        "0",
        "[null,true,false,-0,1.5,1e3,-1E-3]",
        r#""\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00\u0000é""#,
        r#"{"":{"a":1}}"#,
        "[9.9e307,1e-400]",
        "[[[[[]]]]]",
        "\"\u{7f}\u{2028}\"",
    ] {
        let read = read(text.as_bytes(), LIMITS, Duplicates::Refused).unwrap();
        let other: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(plain(&read), other, "{text}");
    }
}

#[test]
fn what_parsers_read_differently_is_refused() {
    for (text, why) in [
        (r#"{"a":1,"a":1}"#, "the member \"a\" is there twice (line 1, column 12)"),
        (r#"{"a":1,"\u0061":1}"#, "the member \"a\" is there twice"),
        (r#"{"x":[{"y":{"a":"","b":1,"a":""}}]}"#, "the member \"a\" is there twice"),
        ("{\"\u{202e}\":1,\n\"\u{202e}\":1}", "\"\\u{202e}\" is there twice (line 2, column 7)"),
        ("", "it ends where a value is expected (line 1, column 1)"),
        (" [", "it ends where a value is expected"),
        ("{} {}", "there is something behind the value (line 1, column 4)"),
        ("{},", "there is something behind the value"),
        ("{\"x\":1} x", "there is something behind the value"),
        ("\u{feff}{}", "a value is expected here"),
        ("\u{a0}1", "a value is expected here"),
        ("NaN", "a value is expected here"),
        ("True", "a value is expected here"),
        ("[,]", "a value is expected here"),
        ("[1,]", "a value is expected here"),
        ("[1 2]", "a comma or a closing bracket is expected here (line 1, column 4)"),
        ("[1", "a comma or a closing bracket is expected here"),
        ("{\"x\":1,}", "the name of a member is expected here"),
        ("{x:1}", "the name of a member is expected here"),
        ("{'x':1}", "the name of a member is expected here"),
        ("{\"x\" 1}", "a colon is expected here"),
        ("{\"x\":1 2}", "a comma or a closing brace is expected here"),
        ("{\"x\":01}", "a comma or a closing brace is expected here"),
        ("-", "a digit is expected here"),
        ("+1", "a value is expected here"),
        (".5", "a value is expected here"),
        ("1.", "a digit is expected here"),
        ("1.e1", "a digit is expected here"),
        ("1e", "a digit is expected here"),
        ("1e+", "a digit is expected here"),
        ("1e308", "a number is too large"),
        ("-1e999", "a number is too large"),
        ("0x1", "there is something behind the value"),
        ("\"", "it ends in the middle of a text"),
        ("\"\\", "it ends in the middle of a text"),
        ("\"\\\"", "it ends in the middle of a text"),
        ("\"a\nb\"", "a control character is in a text (line 1, column 3)"),
        (r#""\ud800""#, "an escape in a text is invalid (line 1, column 2)"),
        (r#""\udc00""#, "an escape in a text is invalid"),
        (r#""\ud800\n""#, "an escape in a text is invalid"),
        (r#""\ud800\ud800""#, "an escape in a text is invalid"),
        (r#""\u+123""#, "an escape in a text is invalid"),
        (r#""\u12""#, "an escape in a text is invalid"),
        (r#""\x41""#, "an escape in a text is invalid"),
        (r#""\é""#, "an escape in a text is invalid"),
        ("[[[[[[]]]]]]", "it has more than 5 levels of brackets (line 1, column 6)"),
        ("[0,0,0,0,0,0,0,0]", "it has more than 8 values (line 1, column 16)"),
    ] {
        let error = refused(text);
        assert!(error.contains(why), "{text}: {error}");
    }
    for text in [&b"{\"x\":\"\xff\"}"[..], b"{\"\xff\":1}", b"\xff", b"\"\xed\xa0\x80\""] {
        let error = read(text, LIMITS, Duplicates::Kept).unwrap_err();
        assert_eq!(error.rule, JsonRule::Syntax("it is not UTF-8"));
    }
}

#[test]
fn limits_are_the_callers() {
    let limits = Limits::of_bytes(2);
    assert!(read_object(b"{}", limits, Duplicates::Kept).is_ok());
    let error = read_object(b"[]", limits, Duplicates::Kept).unwrap_err();
    assert_eq!(error.to_string(), "it is not an object (line 1, column 1)");
    let long = format!("\"{}\"", "x".repeat(998));
    assert!(read(long.as_bytes(), LIMITS, Duplicates::Kept).is_ok());
    assert_eq!(
        refused(&format!("{long} ")),
        "it has 1001 bytes, more than 1000 (line 1, column 1)"
    );
    assert!(read(b"[0,0,0,0,0,0,0]", LIMITS, Duplicates::Kept).is_ok());
    // Deeper than this, `serde_json` does not follow, whatever the caller allows.
    let deepest = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let limits = Limits { bytes: usize::MAX, values: usize::MAX, depth: usize::MAX };
    for (depth, is_read) in [(127, true), (128, false), (100_000, false)] {
        let text = deepest(depth);
        let ours = read(text.as_bytes(), limits, Duplicates::Kept);
        assert_eq!(ours.is_ok(), is_read, "{depth}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), is_read);
    }
}

#[test]
fn a_member_is_found_by_three_rules() {
    let twice = object(r#"{"a":1,"b":2,"a":null,"C":4}"#);
    assert!(twice.last("a").unwrap().is_null() && twice.last("c").is_none());
    let mut taken = object(r#"{"a":1,"a":null}"#);
    assert!(taken.take("a").unwrap().is_null() && !taken.take("a").unwrap().is_null());
    assert!(taken.take("a").is_none());
    let order: Vec<_> = twice.members().map(|(name, _)| name).collect();
    assert_eq!(order, ["a", "b", "a", "C"]);
    assert!(!twice.is_empty() && object("{}").is_empty());
    for (text, only) in [
        (r#"{"b":1}"#, Ok(false)),
        (r#"{"kiss":1}"#, Ok(true)),
        (r#"{"ki\u0073s":1}"#, Ok(true)),
        (r#"{"kiss":1,"kiss":1}"#, Err(Ambiguous::Twice)),
        (r#"{"kiss":1,"KISS":1}"#, Err(Ambiguous::Twice)),
        (r#"{"Kiss":1,"KISS":1}"#, Err(Ambiguous::Twice)),
        (r#"{"Kiss":1}"#, Err(Ambiguous::Case)),
        (r#"{"\u212ai\u017fs":1}"#, Err(Ambiguous::Case)),
    ] {
        let found = object(text).only("kiss").map(|found| found.is_some());
        assert_eq!(found, only, "{text}");
    }
    assert!(!is_same_but_for_case("é", "É") && !is_same_but_for_case("a", "aa"));
}

#[test]
fn values_know_what_and_where_they_are() {
    let text = br#"{"a":"x","b":["\u0079"], "c":{"a":true}}"#;
    let value = read(text, LIMITS, Duplicates::Refused).unwrap();
    let members = value.object().unwrap();
    assert_eq!(members.last("a").unwrap().text(), Some("x"));
    assert!(members.last("a").unwrap().object().is_none());
    let list = members.last("b").unwrap();
    assert_eq!((list.text(), list.offset), (None, 13));
    assert_eq!(list.array().unwrap()[0].text(), Some("y"));
    assert!(list.object().is_none() && value.array().is_none());
    // Only what had to be copied is a copy, and that is zeroed.
    assert!(matches!(list.array().unwrap()[0].kind, Kind::Text(Text::Unescaped(_))));
    assert!(matches!(members.last("a").unwrap().kind, Kind::Text(Text::Borrowed("x"))));
    let shown = format!("{value:?}");
    assert!(shown.contains("(Text, Value {") && !shown.contains("\"x\""), "{shown}");
}

#[test]
fn errors_show_little_and_nothing_that_moves_a_cursor() {
    let name = format!("\\u001b[31m{}", "é".repeat(400));
    let text = format!("{{\"{name}\":1,\"{name}\":2}}");
    let limits = Limits { bytes: 10_000, ..LIMITS };
    let error = read(text.as_bytes(), limits, Duplicates::Refused).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("the member \"\\u{1b}[31mé"), "{error}");
    assert!(error.chars().count() < 200, "{error}");
}

proptest! {
    #[test]
    fn any_text_is_read_as_serde_json_reads_it(
        text in r#"([\[\]{},: \n]|"[a-c\\u0-9é]{0,5}"|-?[0-9.eE+]{1,5}|true|false|null){0,20}"#,
    ) {
        let ours = read(text.as_bytes(), Limits { values: 100, ..LIMITS }, Duplicates::Kept);
        let other = serde_json::from_str::<serde_json::Value>(&text);
        match (ours, other) {
            (Ok(ours), Ok(other)) => prop_assert_eq!(plain(&ours), other),
            (Ok(_), Err(error)) => prop_assert!(false, "only we read {text}: {error}"),
            (Err(error), Ok(_)) => prop_assert!(matches!(
                error.rule,
                JsonRule::TooDeep(_) | JsonRule::Syntax("a number is too large")
            ), "{text}: {error}"),
            (Err(_), Err(_)) => {}
        }
    }
}
