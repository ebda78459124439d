//! What pins mean: which image a name is, which one is refused and with which words, and that no
//! way of writing a name leads around them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use oci_image::named::NamedReference;
use oci_image::pins::{Meant, Pins, Refused};
use proptest::prelude::*;
use registry_config::Document;

/// A digest of one letter.
fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

/// The text with the letter in each `@a` made a digest.
fn written(text: &str) -> String {
    let mut written = String::new();
    let mut before = ' ';
    for letter in text.chars() {
        match before {
            '@' if letter.is_ascii_hexdigit() => written.push_str(&digest(letter)),
            _ => written.push(letter),
        }
        before = letter;
    }
    written
}

/// Pins of `NAME=x`, or `NAME=x|y` for a list.
fn document(is_only: bool, pins: &[&str]) -> String {
    let mut text = format!("only-pins = {is_only}\n[pins]\n");
    for pin in pins {
        let (name, letters) = pin.split_once('=').unwrap();
        let digests = letters.split('|').map(|one| digest(one.parse().unwrap()));
        let digests: Vec<_> = digests.map(|digest| format!("\"{digest}\"")).collect();
        let value = match &digests[..] {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        text.push_str(&format!("\"{name}\" = {value}\n"));
    }
    text
}

fn read(text: &str) -> Result<Pins, String> {
    let checked = Document::parse_measured(text.as_bytes()).map_err(|error| error.to_string())?;
    Pins::read(&checked.document.pins).map_err(|error| error.to_string())
}

fn pins(is_only: bool, pins: &[&str]) -> Pins {
    read(&document(is_only, pins)).unwrap()
}

fn find(pins: &Pins, image: &str) -> Result<Meant, Refused> {
    pins.find(NamedReference::parse(&written(image)).unwrap())
}

const PINS: &[&str] = &[
    "registry.corp/team/app:1.2=a",
    "registry.corp/team/app:1.3=b",
    "registry.corp/team/tool=c",
    "registry.corp/team/both=d",
    "registry.corp/team/both:1=e",
    "registry.corp/team/many=1|2",
    "busybox=f",
    "team/app:latest=a",
];

/// An image, the letter of what runs and the pin that allows it without `only-pins`, and with it;
/// empty where it is refused.
#[test]
fn each_name_means_what_is_pinned_or_nothing() {
    let refused = ("", "");
    let unpinned = |letter: &'static str| [(letter, ""), refused];
    let both = |letter: &'static str, pin: &'static str| [(letter, pin); 2];
    for (image, expected) in [
        // A tag that is pinned, by itself, with its digest, and with another one.
        ("registry.corp/team/app:1.2", both("a", "registry.corp/team/app:1.2")),
        ("registry.corp/team/app:1.2@a", both("a", "registry.corp/team/app:1.2")),
        ("registry.corp/team/app:1.2@b", [refused; 2]),
        ("registry.corp/team/app:1.2@0", [refused; 2]),
        // The digest alone.
        ("registry.corp/team/app@a", both("a", "registry.corp/team/app:1.2")),
        ("registry.corp/team/app@b", both("b", "registry.corp/team/app:1.3")),
        ("registry.corp/team/app@0", unpinned("0")),
        // A tag that is not pinned, in a repository that has only tags.
        ("registry.corp/team/app:1.4", [refused; 2]),
        ("registry.corp/team/app", [refused; 2]),
        ("registry.corp/team/app:1.4@a", unpinned("a")),
        ("registry.corp/team/app:1.4@0", unpinned("0")),
        // A repository.
        ("registry.corp/team/tool", both("c", "registry.corp/team/tool")),
        ("registry.corp/team/tool:7", both("c", "registry.corp/team/tool")),
        ("registry.corp/team/tool:7@c", both("c", "registry.corp/team/tool")),
        ("registry.corp/team/tool@c", both("c", "registry.corp/team/tool")),
        ("registry.corp/team/tool@0", [refused; 2]),
        ("registry.corp/team/tool:7@0", [refused; 2]),
        // A tag beside its repository.
        ("registry.corp/team/both:1", both("e", "registry.corp/team/both:1")),
        ("registry.corp/team/both:2", both("d", "registry.corp/team/both")),
        ("registry.corp/team/both:1@d", [refused; 2]),
        ("registry.corp/team/both:2@e", [refused; 2]),
        ("registry.corp/team/both@e", both("e", "registry.corp/team/both:1")),
        ("registry.corp/team/both@d", both("d", "registry.corp/team/both")),
        // Several.
        ("registry.corp/team/many@1", both("1", "registry.corp/team/many")),
        ("registry.corp/team/many:5@2", both("2", "registry.corp/team/many")),
        ("registry.corp/team/many@3", [refused; 2]),
        ("registry.corp/team/many:5", [refused; 2]),
        // No pin at all.
        ("registry.corp/team/other@a", unpinned("a")),
        ("registry.corp/team/other:1.2@a", unpinned("a")),
        ("registry.corp/team/other:1.2", [refused; 2]),
        ("registry.corp/team/app/x@a", unpinned("a")),
        ("registry.corp/team@a", unpinned("a")),
        // The same content elsewhere is another image.
        ("registry.corp:5000/team/app@a", unpinned("a")),
        ("other.corp/team/app:1.2@a", unpinned("a")),
        // Other spellings.
        ("Registry.CORP:443/team/app:1.2", both("a", "registry.corp/team/app:1.2")),
        ("REGISTRY.corp/team/app:1.2@0", [refused; 2]),
        ("registry.corp:443/team/tool@0", [refused; 2]),
        ("index.docker.io/library/busybox", both("f", "docker.io/library/busybox")),
        ("docker.io:443/busybox@0", [refused; 2]),
        ("busybox:1.36", both("f", "docker.io/library/busybox")),
        // No tag is `latest`.
        ("team/app", both("a", "docker.io/team/app:latest")),
        ("team/app:latest@0", [refused; 2]),
    ] {
        for (is_only, (letter, pin)) in [false, true].into_iter().zip(expected) {
            let found = find(&pins(is_only, PINS), image);
            let found = found.map(|meant| {
                let digest = meant.image.digest().to_string();
                (digest, meant.pin.unwrap_or_default())
            });
            let expected = letter.chars().next().map(|it| (digest(it), pin.to_owned()));
            assert_eq!(found.ok(), expected, "{image}, only: {is_only}");
        }
    }
}

/// The host writes the tag; only where that very tag is pinned does the owner say what it has.
#[test]
fn the_pin_of_the_very_tag_is_told_from_others() {
    for (image, is_of_tag) in [
        ("registry.corp/team/app:1.2", true),
        ("registry.corp/team/app:1.2@a", true),
        ("Registry.CORP:443/team/app:1.2@a", true),
        ("registry.corp/team/both:1", true),
        // No tag is `latest`, but not beside a digest.
        ("team/app", true),
        ("team/app@a", false),
        // A tag that was dropped or changed.
        ("registry.corp/team/app@a", false),
        ("registry.corp/team/app:1.4@a", false),
        // The repository's pin.
        ("registry.corp/team/tool:7", false),
        ("registry.corp/team/tool:7@c", false),
        ("registry.corp/team/both:2", false),
        // None.
        ("registry.corp/team/other:1.2@a", false),
    ] {
        let meant = find(&pins(false, PINS), image).unwrap();
        assert_eq!(meant.is_of_tag, is_of_tag, "{image}");
    }
}

#[test]
fn a_refusal_says_what_is_pinned_and_what_to_do() {
    for (is_only, image, words) in [
        (
            false,
            "registry.corp/team/app:1.2@0",
            "the measured document pins registry.corp/team/app:1.2 to @a, and the image reference \
            names @0: name what is pinned, or change [pins]",
        ),
        (false, "registry.corp/team/many@3", "pins registry.corp/team/many to @1 and 1 more, and"),
        (
            false,
            "registry.corp/team/many:5",
            "pins registry.corp/team/many to 2 digests, and the image reference names none of \
            them: write one of them behind \"@\", or pin registry.corp/team/many:5 to one",
        ),
        (
            false,
            "registry.corp/other:1",
            "or pin the tag in the measured document: [pins] \"registry.corp/other:1\" = ",
        ),
        (
            true,
            "registry.corp/other",
            "only-pins = true, and [pins] does not have registry.corp/other:latest: pin it to \
            what shall run",
        ),
        (
            true,
            "registry.corp/team/app:1.4@a",
            "does not have registry.corp/team/app:1.4 with @a: pin it to that, if it shall run",
        ),
        (
            true,
            "registry.corp/team/app@0",
            "does not have registry.corp/team/app with @0: pin it to that",
        ),
    ] {
        let error = find(&pins(is_only, PINS), image).unwrap_err().to_string();
        let words = ["a", "0", "1"].iter().fold(words.to_owned(), |words, letter| {
            words.replace(&format!("@{letter}"), &digest(letter.parse().unwrap()))
        });
        assert!(error.contains(&words), "{error}");
    }
}

#[test]
fn a_pin_without_a_meaning_is_a_problem_with_its_line() {
    let a = digest('a');
    for (pins, expected) in [
        (
            format!("\"registry.corp/App\" = \"{a}\""),
            "line 2: pins.\"registry.corp/App\": the repository of the image reference has \
            upper-case letters: it is lower-case",
        ),
        (
            format!("\"https://registry.corp/app\" = \"{a}\""),
            "the image reference begins with a scheme",
        ),
        (
            format!("\"registry.corp/*\" = \"{a}\""),
            "the repository of the image reference is not valid",
        ),
        (
            format!("\"registry.corp/app@{a}\" = \"{a}\""),
            "a pin's name has no digest: that is its value",
        ),
        (
            "app = \"sha256:12\"".to_owned(),
            "line 2: pins.app: the digest has 2 hexadecimal digits instead of 64; it was cut or \
            has text after it; a pin is \"REPOSITORY:TAG\" = \"sha256:...\"",
        ),
        (
            format!("\"a/b:1\" = [\"{a}\", \"{a}\"]"),
            "a tag has one digest; a repository, without a tag, may have several",
        ),
        (
            format!("busybox = \"{a}\"\n\"docker.io/library/busybox\" = \"{a}\""),
            "line 3: pins.\"docker.io/library/busybox\": is the image of line 2 again; write one",
        ),
    ] {
        let error = read(&format!("[pins]\n{pins}\n")).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // A tag and its repository are two pins, and a list of one is a digest.
    read(&document(false, &["app:latest=a", "app=a"])).unwrap();
    read(&format!("pins.\"app:1\" = [\"{a}\"]")).unwrap();
}

proptest! {
    /// Whatever the host writes, nothing runs under `only-pins` but what is pinned for that
    /// repository, and a pinned tag is never anything else.
    #[test]
    fn no_name_leads_around_the_pins(
        host in prop_oneof!["registry[.]corp(:443|:5000)?/", "(index[.])?docker[.]io/", Just(String::new())],
        path in prop_oneof![Just("team/app"), Just("team/both"), Just("team/many"), Just("busybox")],
        tag in prop_oneof![Just(""), Just(":1"), Just(":1.2"), Just(":latest")],
        letter in prop_oneof![Just(None), "[a-f0-3]".prop_map(Some)],
    ) {
        let end = letter.map_or(String::new(), |letter| format!("@{letter}"));
        let text = format!("{host}{path}{tag}{end}");
        for is_only in [false, true] {
            let Ok(meant) = find(&pins(is_only, PINS), &text) else {
                continue;
            };
            let name = NamedReference::from(&meant.image).name();
            let ran = meant.image.digest().to_string();
            let own = |pin: &&&str| {
                let named = NamedReference::parse(pin.split_once('=').unwrap().0).unwrap();
                named.name() == name
            };
            let allowed: Vec<_> = PINS.iter().filter(own).collect();
            let is_pinned = allowed.iter().any(|pin| {
                let (_, letters) = pin.split_once('=').unwrap();
                letters.split('|').any(|letter| digest(letter.parse().unwrap()) == ran)
            });
            prop_assert!(is_pinned || !is_only, "{text}");
            prop_assert!(meant.pin.is_some() || !is_only, "{text}");
            let tagged = format!("{name}{tag}=");
            for pin in &allowed {
                let (own, letter) = pin.split_once('=').unwrap();
                let own = NamedReference::parse(own).unwrap().to_string();
                if !tag.is_empty() && format!("{own}=") == tagged {
                    prop_assert_eq!(&ran, &digest(letter.parse().unwrap()), "{}", text);
                }
            }
        }
    }
}
