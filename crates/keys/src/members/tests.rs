use super::*;

fn parsed(text: &str) -> Object<'_> {
    object(text.as_bytes(), 1000).unwrap()
}

#[test]
fn what_means_something_is_there_once() {
    for (text, expected) in [
        (r#"{"kid":"a"}"#, Ok(Some("a"))),
        (r#"{"kid":"a","other":{"kid":"b"},"x":[1,{"kid":1}]}"#, Ok(Some("a"))),
        (r#"{"k\u0069d":"\u0061\/"}"#, Ok(Some("a/"))),
        (r#"{"kid":null}"#, Ok(None)),
        (r#"{"x":"a","x":"b"}"#, Ok(None)),
        ("{}", Ok(None)),
        (r#"{"kid":"a","kid":"b"}"#, Err(InvalidJson::Twice("kid"))),
        (r#"{"kid":"a","kid":null}"#, Err(InvalidJson::Twice("kid"))),
        (r#"{"kid":"a","KID":"b"}"#, Err(InvalidJson::Twice("kid"))),
        (r#"{"k\u0069d":"a","kid":"a"}"#, Err(InvalidJson::Twice("kid"))),
        (r#"{"Kid":"a"}"#, Err(InvalidJson::Case("kid"))),
        (r#"{"\u212aid":"a"}"#, Err(InvalidJson::Case("kid"))),
        (r#"{"kid":1}"#, Err(InvalidJson::Text("kid"))),
        (r#"{"kid":["a"]}"#, Err(InvalidJson::Text("kid"))),
        (r#"{"kid":true}"#, Err(InvalidJson::Text("kid"))),
        (r#"{"kid":{}}"#, Err(InvalidJson::Text("kid"))),
    ] {
        assert_eq!(super::text(&parsed(text), "kid"), expected, "{text}");
    }
    assert_eq!(required(&parsed("{}"), "kid"), Err(InvalidJson::Missing("kid")));
    assert_eq!(inner(&parsed(r#"{"a":"x"}"#), "a").err(), Some(InvalidJson::Members("a")));
}

#[test]
fn only_one_object_is_read() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(400), "]".repeat(400));
    // The reader's own table has every other text that is no JSON.
    for text in [
        "",
        "null",
        "[]",
        "\"a\"",
        "{} {}",
        "\u{feff}{}",
        // Not every program reads this.
        deep.as_str(),
    ] {
        let result = object(text.as_bytes(), 1000);
        assert_eq!(result.err(), Some(InvalidJson::Object), "{text}");
    }
    assert!(object(b"{\"a\":\"\xff\"}", 1000).is_err());
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    assert!(object(padded(1000).as_bytes(), 1000).is_ok());
    let (limit, found) = (1000, 1001);
    assert_eq!(
        object(padded(1001).as_bytes(), limit).err(),
        Some(InvalidJson::TooLong { limit, found })
    );
}

#[test]
fn bytes_are_padded_standard_base64_of_the_right_length() {
    for (text, expected) in [
        ("AAE=", Ok([0, 1])),
        ("//8=", Ok([255, 255])),
        ("AAE", Err(InvalidJson::Base64("a"))),
        ("__8=", Err(InvalidJson::Base64("a"))),
        ("AAF=", Err(InvalidJson::Base64("a"))),
        ("AAE=\\n", Err(InvalidJson::Base64("a"))),
        (" AAE=", Err(InvalidJson::Base64("a"))),
        ("AA==", Err(length(1))),
        ("AAEC", Err(length(3))),
        ("", Err(length(0))),
    ] {
        let text = format!("{{\"a\":\"{text}\"}}");
        let read = array::<2>(&parsed(&text), "a").map(|bytes| *bytes);
        assert_eq!(read, expected, "{text}");
    }
}

fn length(found: usize) -> InvalidJson {
    InvalidJson::Length { member: "a", expected: 2, found }
}
