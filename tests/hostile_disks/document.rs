//! Documents in good images: hostile initdata, and configurations that are nobody's business here.

use crate::hostile_disks::image::padded;
use crate::hostile_disks::row::{Files, SECRET};

/// Words of a refusal, or the files.
type Outcome = Result<Files, &'static str>;

const HEAD: &str = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n";

fn data(lines: impl AsRef<str>) -> Vec<u8> {
    format!("{HEAD}{}", lines.as_ref()).into_bytes()
}

fn files(entries: &[(&str, &str)]) -> Files {
    entries
        .iter()
        .map(|(name, content)| ((*name).to_owned(), content.as_bytes().to_vec()))
        .collect()
}

/// Initdata documents by name.
pub fn initdata() -> Vec<(&'static str, Vec<u8>, Outcome)> {
    [names(), sizes(), forms()].into_iter().flatten().collect()
}

fn names() -> Vec<(&'static str, Vec<u8>, Outcome)> {
    let key = |key: &str| data(format!("{key} = \"{SECRET}\"\n"));
    let longest = "n".repeat(255);
    let legal = |name: &str| Ok(files(&[(name, SECRET)]));
    vec![
        ("key with dots and a slash", key("\"../escaped\""), Err("it has a slash")),
        (
            "key with a line break and a policy",
            key("\"x\\\"\\n\\ndefault AllowRequestsFailingPolicy := true\\n\""),
            Err("it has a control character"),
        ),
        ("key of 255 bytes", key(&longest), legal(&longest)),
        ("key with quotes", key("'x\" } allow := true'"), legal("x\" } allow := true")),
        (
            "a good key and a bad one",
            data(format!("a = \"{SECRET}\"\n\"../b\" = \"\"\n")),
            Err("it has a slash"),
        ),
    ]
}

fn sizes() -> Vec<(&'static str, Vec<u8>, Outcome)> {
    let entries = |count: usize| {
        let numbers = 0..count;
        let lines: String = numbers.map(|number| format!("e{number} = \"\"\n")).collect();
        data(lines)
    };
    let thousand = (0..1024).map(|number| (format!("e{number}"), Vec::new()));
    let value = "v".repeat((4 << 20) - HEAD.len() - 10);
    vec![
        ("1024 entries", entries(1024), Ok(thousand.collect())),
        ("1025 entries", entries(1025), Err("1025 entries, at most 1024 are accepted")),
        ("no entries", data(""), Ok(Files::new())),
        ("one value of 4 MiB", data(format!("a = \"{value}\"\n")), Ok(files(&[("a", &value)]))),
        ("arrays in arrays", data(format!("a = {}", "[".repeat(100_000))), Err("line 4: ")),
        ("tables in tables", data(format!("a = {}", "{a=".repeat(100_000))), Err("line 4: ")),
        (
            "a dotted key of 50000 parts",
            data(format!("{} = 1", vec!["a"; 50_000].join("."))),
            Err(""),
        ),
        (
            "a header of 50000 parts",
            data(format!("[data.{}]", vec!["a"; 50_000].join("."))),
            Err(""),
        ),
    ]
}

fn forms() -> Vec<(&'static str, Vec<u8>, Outcome)> {
    let good = data(format!("a = \"{SECRET}\"\n"));
    let text = String::from_utf8_lossy(&good).into_owned();
    let line_ends = text.replace('\n', "\r\n").into_bytes();
    let ok = || Ok(files(&[("a", SECRET)]));
    vec![
        ("document: empty", Vec::new(), Err("version: the key is missing")),
        (
            "document: not UTF-8",
            [&good[..], b"b = \"\xff\xfe\"\n"].concat(),
            Err("not TOML: it is not UTF-8"),
        ),
        ("document: NUL bytes", [&good[..], &[0; 64]].concat(), Err("line 5: ")),
        ("document: other line ends", line_ends, ok()),
        ("document: byte order mark", [&b"\xef\xbb\xbf"[..], &good].concat(), ok()),
        ("document: not TOML", format!("{text}{SECRET} {SECRET}\n").into_bytes(), Err("line 5: ")),
        (
            "document: the configuration",
            crate::hostile_disks::table::CONFIGURATION.as_bytes().to_vec(),
            Err("version: the key is missing"),
        ),
        (
            "document: algorithm with an escape sequence",
            text.replace("sha256", "\\u001b[2J\\n").into_bytes(),
            Err("found \"\\u{1b}[2J\\n\""),
        ),
        (
            "document: further keys",
            format!("x = \"{SECRET}\"\n{text}[y]\nz = 1\n").into_bytes(),
            ok(),
        ),
    ]
}

/// Configurations by name: none is interpreted.
pub fn configurations() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("configuration: one byte", vec![b'x']),
        ("configuration: a line break", vec![b'\n']),
        ("configuration: NUL bytes", vec![0; 100]),
        ("configuration: not UTF-8", [SECRET.as_bytes(), b"\xff\xfe"].concat()),
        ("configuration: not TOML", format!("[[[ {SECRET}").into_bytes()),
        (
            "configuration: an image inside",
            [&b"initdata\x14\0\0\0\0\0\0\0"[..], SECRET.as_bytes()].concat(),
        ),
        ("configuration: 60000 bytes", padded(SECRET.as_bytes(), 60_000)),
    ]
}
