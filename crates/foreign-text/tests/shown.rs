//! The one way of showing foreign words.

use foreign_text::shown::{MAX_SHOWN_CHARS, one_line, shown};

#[test]
fn what_is_visible_is_shown_and_nothing_else() {
    for (text, want) in [
        ("https://ghcr.io/v1/", "https://ghcr.io/v1/"),
        ("größe 日本 слой", "größe 日本 слой"),
        (r#"a"b\c'"#, r#"a"b\c'"#),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\u{1b}[2J\u{7f}\u{85}\0", r"\u{1b}[2J\u{7f}\u{85}\u{0}"),
        ("\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}", r"\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}"),
        ("\u{2066}\u{2067}\u{2068}\u{2069}", r"\u{2066}\u{2067}\u{2068}\u{2069}"),
        ("\u{200e}\u{200f}\u{61c}", r"\u{200e}\u{200f}\u{61c}"),
        ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
        (
            "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}",
            r"\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}",
        ),
        ("\u{115f}\u{1160}\u{3164}\u{ffa0}", r"\u{115f}\u{1160}\u{3164}\u{ffa0}"),
        ("\u{a0}\u{2003}\u{3000}", r"\u{a0}\u{2003}\u{3000}"),
        ("\u{e000}\u{378}\u{e0041}\u{10ffff}", r"\u{e000}\u{378}\u{e0041}\u{10ffff}"),
        ("cafe\u{301}", r"cafe\u{301}"),
        ("\u{1f600}", "\u{1f600}"),
    ] {
        assert_eq!(shown(text).to_string(), want);
        assert_eq!(format!("{:?}", shown(text)), want);
    }
    assert_eq!(shown(b"a\xff\xe2\x80z").to_string(), r"a\xff\xe2\x80z");
}

#[test]
fn what_is_long_is_cut_visibly() {
    let text = "é".repeat(MAX_SHOWN_CHARS);
    assert_eq!(shown(&text).to_string(), text);
    assert_eq!(shown(&format!("{text}é")).to_string(), format!("{text}…"));
    for (text, want) in [("abc", "abc"), ("abcd", "abc…"), ("ab\nd", "ab\\n…"), ("", "")] {
        assert_eq!(shown(text).up_to(3).to_string(), want);
    }
    assert_eq!(shown(b"\xff\xff\xff").up_to(2).to_string(), r"\xff\xff…");
    assert_eq!(shown("abcd").up_to(3).quoted().to_string(), "\"abc…\"");
}

#[test]
fn quotes_cannot_be_closed_from_inside() {
    for (text, want) in [
        ("", r#""""#),
        ("a", r#""a""#),
        ("a\" b\\", r#""a\" b\\""#),
        ("\n\u{202e}", r#""\n\u{202e}""#),
    ] {
        assert_eq!(shown(text).quoted().to_string(), want);
    }
}

#[test]
fn what_may_be_a_password_is_left_out() {
    for (text, want) in [
        ("https://u:hunter2@ghcr.io", "[redacted]@ghcr.io"),
        ("u:hunter@2/x@ghcr.io", "[redacted]@ghcr.io"),
        ("ghcr.io/x", "ghcr.io/x"),
        ("hunter2@", "[redacted]@"),
    ] {
        assert_eq!(shown(text).without_user().to_string(), want);
    }
    // Before it is cut: a long password is none the less one.
    let text = format!("{}@host", "x".repeat(1000));
    assert_eq!(shown(&text).without_user().up_to(3).quoted().to_string(), "\"[redacted]@ho…\"");
}

#[test]
fn a_message_stays_on_its_line() {
    assert_eq!(one_line("a\nb\r\x1b[2Jc\u{85}é\n").to_string(), "a b\\r\\u{1b}[2Jc\\u{85}é");
    let long = "x".repeat(100_000);
    assert_eq!(one_line(&long).to_string(), long);
    assert_eq!(one_line(&long).up_to(2).to_string(), "xx…");
}
