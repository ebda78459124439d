//! Both sides are asked about one disk: what `inspect` says is what `initdata-processor` does.
//!
//! `inspect` once read initdata with a parser of its own. It called documents good that the guest
//! answers with its deny-all policy, and printed characters that reverse the text around them.

use std::collections::BTreeMap;

use config_image::MAX_DOCUMENT_BYTES;
use initdata::document::{MAX_ENTRIES, MAX_TOKENS};
use initdata_processor::journal;
use proptest::prelude::*;

use crate::inspect::inspect;
use crate::inspect::machine::{DOCUMENT, Machine, Platform, UNVERIFIED, gzip, initdata, raw};

const HEAD: &str = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n";

/// The files that come of a disk, by name, with their sizes; or why there are none.
type Answer = Result<BTreeMap<String, u64>, String>;

/// What the guest does with the disk.
fn guest(disk: &[u8]) -> Answer {
    let mut machine = Machine::new().cmdline(UNVERIFIED).disk("vda", disk);
    match machine.run(Platform::none()).initdata {
        Ok(_) => {
            // Not of the disk: what the guest puts there where the image has no policy either.
            let files = machine.measured().unwrap().into_iter();
            let files = files.filter(|(_, content)| !content.contains("initdata brings no policy"));
            Ok(files.map(|(name, content)| (name, content.len() as u64)).collect())
        }
        Err(line) => {
            assert!(machine.deny_policy().contains("reason := "));
            let (_, reason) = line.split_once("disk vda").expect("what is wrong with the disk");
            Err(reason.split_once(": ").expect("a reason").1.to_owned())
        }
    }
}

/// What the host says of the disk.
fn host(disk: &[u8]) -> Answer {
    let (text, json) = inspect(disk);
    let steers = |character: char| {
        character.is_control() && character != '\n'
            || matches!(character, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(character, '\u{2066}'..='\u{2069}')
    };
    assert!(!text.stdout.contains(steers), "{:?}", text.stdout);
    if json.stdout.is_empty() {
        assert_eq!(json.code, 65);
        // Without what a person can do about it, which follows behind the reason.
        let line = json.stderr.trim_end();
        let line = line.rsplit_once(": give a file that ").expect("a remedy").0;
        return Err(line.split_once("/image: ").expect("a reason").1.to_owned());
    }
    let document = &json.json()["document"];
    assert_eq!(document["valid"], json.code == 0);
    let problem = &document["problems"][0];
    if json.code == 0 {
        assert!(problem.is_null());
        return Ok(serde_json::from_value(document["data"].clone()).unwrap());
    }
    assert_eq!(json.code, 65);
    let part = |name: &str| problem[name].as_str().unwrap();
    let key = match part("key") {
        "" => String::new(),
        key => format!("{key}: "),
    };
    let place = match problem["line"].as_u64() {
        Some(line) => format!("line {line}: {key}"),
        None => key.clone(),
    };
    let number = problem["line"].as_u64().map(|line| format!(":{line}"));
    let message = part("message");
    let printed = format!("/image{}: {key}{message}\n", number.unwrap_or_default());
    assert!(text.stdout.contains(&printed), "{printed}{}", text.stdout);
    // The guest's log and policy know ASCII only.
    Err(journal::line(&format!("{place}{message}"), usize::MAX))
}

#[track_caller]
fn both(disk: &[u8]) -> Answer {
    let (guest, host) = (guest(disk), host(disk));
    assert_eq!(host, guest);
    guest
}

#[test]
fn documents() {
    let data = |lines: &str| format!("{HEAD}[data]\n{lines}");
    let entries =
        |count| (0..count).fold(data(""), |text, number| text + &format!("n{number} = \"\"\n"));
    let array = |item: &str| format!("{HEAD}more = [{}]\n[data]\n", item.repeat(MAX_TOKENS / 2));
    let names = (0..MAX_TOKENS / 8)
        .fold(HEAD.to_owned(), |text, number| text + &format!("a.b.c.n{number} = 1\n"));
    for (document, refused) in [
        (DOCUMENT.to_owned(), None),
        (data(""), None),
        (data("\"\\u202egnp.x\" = \"1\"\n\"caf\\u00e9\" = \"22\""), None),
        (data("a = \"\"\n[more]\nb = 1\n"), None),
        (entries(MAX_ENTRIES), None),
        (entries(MAX_ENTRIES + 1), Some("at most 1024")),
        // Good, said the host.
        (data("\"caf\\u00e9\" = \"1\"\n\"cafe\\u0301\" = \"2\""), Some("two Unicode spellings")),
        (array("1,"), Some("at most 32768 names, values")),
        (array("[],"), Some("at most 32768 names, values")),
        (names + "[data]\n", Some("at most 32768 names, values")),
        (data("") + &"\n".repeat(MAX_TOKENS), Some("brackets and lines")),
        // Refused by both from the beginning.
        (String::new(), Some("version: the key is missing")),
        ("some content".to_owned(), Some("line 1: not TOML")),
        (HEAD.to_owned(), Some("data: the key is missing")),
        (data("policy.rego = \"x\""), Some("needs quotes")),
        (data("\"../\\u202ex\" = \"\""), Some("it has a slash")),
        (data("\"a\\u001b[2J\" = \"\""), Some("a control character")),
        (data("n = 1"), Some("line 4: data.n: ")),
        (DOCUMENT.replace("sha256", "sha\\u202e256"), Some("expected sha256")),
        (DOCUMENT.replace("0.1.0", "\\u202e9"), Some("expected \"0.1.0\"")),
    ] {
        let answer = both(&initdata(&document));
        match refused {
            None => assert!(answer.is_ok(), "{document:.99}: {answer:?}"),
            Some(words) => {
                let reason = answer.expect_err(words);
                assert!(reason.contains(words), "{document:.99}: {reason}");
            }
        }
    }
}

#[test]
fn images() {
    let good = gzip(DOCUMENT.as_bytes());
    let length = good.len() as u64;
    let image = |length: u64, payload: &[u8]| raw(b"initdata", length, payload);
    let whole = |payload: &[u8]| image(payload.len() as u64, payload);
    both(&whole(&good)).unwrap();
    for disk in [
        image(0, &good),
        image(19, &good),
        image(length - 1, &good),
        image(length + 1, &good),
        image(497, &good),
        image(u64::MAX, &good),
        image(length, &good)[..16 + good.len() / 2].to_vec(),
        whole(&[0; 64]),
        whole(DOCUMENT.as_bytes()),
        whole(&[good.as_slice(), &good].concat()),
        whole(&gzip(&vec![b' '; MAX_DOCUMENT_BYTES + 1])),
        whole(&gzip(b"\xff\xfe not text")),
    ] {
        both(&disk).unwrap_err();
    }
}

/// The digest that `inspect` prints for the algorithm of the document is the one by which the guest
/// finds it announced.
#[test]
fn digests() {
    for algorithm in ["sha256", "sha384", "sha512"] {
        let document = DOCUMENT.replace("sha256", algorithm);
        let disk = initdata(&document);
        let report = inspect(&disk).1.json();
        let digest = report["document"][algorithm].as_str().unwrap().as_bytes();
        let digits = digest.chunks(2).map(|digits| str::from_utf8(digits).unwrap());
        let digest: Vec<u8> =
            digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect();
        for size in [32, 48] {
            let mut machine = Machine::new().disk("vda", &disk);
            let outcome = machine.run(Platform::announces(&digest, size));
            assert_eq!(outcome.code, 0, "{algorithm} in {size} bytes: {}", machine.log);
            let outcome = machine.run(Platform::announces(&digest[1..], size));
            assert!(outcome.initdata.unwrap_err().contains("expected the digest in"));
        }
    }
}

fn setting(key: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = String> {
    // Mostly the good one, so that what comes behind it is looked at.
    let values = prop_oneof![8 => Just(values[0]), 1 => prop::sample::select(values)];
    values.prop_map(move |value| match value {
        "" => String::new(),
        value => format!("{key} = {value}\n"),
    })
}

fn entry() -> impl Strategy<Value = String> {
    const NAMES: [&str; 9] =
        ["a", "b.c", "caf\u{e9}", "cafe\u{301}", "\u{202e}a", "..", "a/b", "\u{7f}", ""];
    let name = prop_oneof![
        6 => "[a-z]{1,4}",
        2 => prop::sample::select(&NAMES[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    // JSON's escapes are TOML's, except for DEL, which TOML wants escaped.
    let quoted = |text: &str| serde_json::to_string(text).unwrap().replace('\u{7f}', "\\u007f");
    let value = prop_oneof![
        12 => any::<String>().prop_map(move |text| quoted(&text)),
        1 => prop::sample::select(&["1", "{}", "[\"x\"]", "nonsense"][..]).prop_map(str::to_owned),
    ];
    (name, value).prop_map(move |(name, value)| format!("{} = {value}\n", quoted(&name)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn generated_documents(
        version in setting("version", &["\"0.1.0\"", "\"0.1\"", "1", ""]),
        algorithm in setting("algorithm", &["\"sha256\"", "\"sha-512\"", "\"md5\"", "[]", ""]),
        more in setting("more", &["", "{ a.b = 1 }", "nonsense"]),
        header in prop_oneof![8 => Just("[data]\n"), 1 => Just("data = 1\n"), 1 => Just("")],
        entries in prop::collection::vec(entry(), 0..6),
    ) {
        let document = format!("{version}{algorithm}{more}{header}{}", entries.concat());
        let _ = both(&initdata(&document));
    }
}
