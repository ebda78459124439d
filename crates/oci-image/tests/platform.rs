//! Which platforms run on which, and how well: containerd's order.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use oci_image::platform::{InvalidPlatform, Platform};
use proptest::prelude::*;
use test_command::hold_cases;

fn platform(text: &str) -> Platform {
    Platform::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn from_json(text: &str) -> Platform {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_spelling_means_one_platform_or_is_refused() {
    hold_cases("platforms", |text| match Platform::parse(text.trim_end_matches('\n')) {
        Ok(read) => {
            let shown = read.to_string();
            assert_eq!(platform(&shown), read, "{text}");
            shown
        }
        Err(error) => error.to_string(),
    });
    assert_eq!(Platform::parse(""), Err(InvalidPlatform::Parts));
    for text in ["linux/amd64\n", &format!("linux/{}", "a".repeat(65))] {
        assert_eq!(Platform::parse(text), Err(InvalidPlatform::Word));
    }
}

/// Each guest with everything that runs on it, best first, and with things that do not.
#[test]
fn what_runs_is_ranked_as_containerd_ranks_it() {
    for (guest, runs, does_not) in [
        (
            "linux/amd64",
            vec!["linux/amd64", "linux/386"],
            vec!["linux/amd64/v2", "linux/amd64/v3", "linux/arm64", "windows/amd64"],
        ),
        (
            "linux/amd64/v3",
            vec!["linux/amd64/v3", "linux/amd64/v2", "linux/amd64", "linux/386"],
            vec!["linux/amd64/v4", "linux/amd64/v0", "linux/amd64/w1"],
        ),
        (
            "linux/amd64/v4",
            vec![
                "linux/amd64/v4",
                "linux/amd64/v3",
                "linux/amd64/v2",
                "linux/amd64/v1",
                "linux/386",
            ],
            vec!["linux/amd64/v5", "linux/amd64/v256", "linux/amd64/v4.0"],
        ),
        (
            "linux/arm64",
            vec!["linux/arm64/v8", "linux/arm/v8", "linux/arm/v7", "linux/arm/v6", "linux/arm/v5"],
            vec!["linux/arm64/v8.1", "linux/arm64/v9", "linux/arm/v4", "linux/amd64"],
        ),
        (
            "linux/arm64/v9.1",
            vec![
                "linux/arm64/v9.1",
                "linux/arm64/v9",
                "linux/arm64/v8.6",
                "linux/arm64/v8.5",
                "linux/arm64/v8.1",
                "linux/arm64",
                "linux/arm/v8",
                "linux/arm",
            ],
            vec!["linux/arm64/v9.2", "linux/arm64/v8.7", "linux/arm64/v7"],
        ),
        (
            "linux/arm/v7",
            vec!["linux/arm", "linux/arm/v6", "linux/arm/v5"],
            vec!["linux/arm/v8", "linux/arm/v4", "linux/arm64"],
        ),
        ("linux/arm/v6", vec!["linux/armel", "linux/arm/v5"], vec!["linux/arm"]),
        ("linux/386", vec!["linux/i386"], vec!["linux/amd64"]),
        ("linux/s390x", vec!["linux/s390x"], vec!["linux/s390", "linux/s390x/z15"]),
        (
            "linux/riscv64/rva22u64",
            vec!["linux/riscv64/rva22u64", "linux/riscv64"],
            vec!["linux/riscv64/rva23u64"],
        ),
    ] {
        let on = platform(guest);
        let ranks: Vec<_> = runs
            .iter()
            .map(|text| on.rank(&platform(text)).unwrap_or_else(|| panic!("{text} on {guest}")))
            .collect();
        assert!(ranks.is_sorted_by(|one, next| one < next), "{guest}: {ranks:?}");
        assert_eq!(ranks[0], 0, "{guest}");
        for text in does_not {
            assert_eq!(on.rank(&platform(text)), None, "{text} on {guest}");
        }
    }
}

#[test]
fn fields_that_documents_leave_out_or_invent_are_read() {
    let guest = platform("linux/amd64/v2");
    for (text, shown, rank) in [
        (r#"{"os":"linux","architecture":"amd64"}"#, "linux/amd64", Some(1)),
        (
            r#"{"os":"linux","architecture":"amd64","variant":null,
            "os.version":null,"os.features":null}"#,
            "linux/amd64",
            Some(1),
        ),
        (
            r#"{"os":"linux","architecture":"amd64","variant":"",
            "os.features":[],"features":["sse4"]}"#,
            "linux/amd64",
            Some(1),
        ),
        // The version of a Linux says nothing.
        (
            r#"{"os":"linux","architecture":"amd64","os.version":"10.0.17763.1"}"#,
            "linux/amd64",
            Some(1),
        ),
        (
            r#"{"os":"linux","architecture":"amd64","os.features":["erofs"]}"#,
            "linux(+erofs)/amd64",
            None,
        ),
        (
            r#"{"os":"linux","architecture":"amd64","os.features":["a","b\n"]}"#,
            "linux(+a+...)/amd64",
            None,
        ),
        (r#"{"architecture":"x86_64","variant":"v2"}"#, "any/amd64/v2", Some(0)),
        (r#"{"os":"linux"}"#, "linux/any", None),
        (r#"{}"#, "any/any", None),
        (r#"{"os":"unknown","architecture":"unknown"}"#, "unknown/unknown", None),
        (r#"{"os":"linux","architecture":"amd64 \u001b[31m"}"#, "linux/?", None),
        (r#"{"os":"linux","architecture":"amd64","variant":"v 2"}"#, "linux/amd64/?", None),
    ] {
        let read = from_json(text);
        assert_eq!(read.to_string(), shown, "{text}");
        assert_eq!(guest.rank(&read), rank, "{text}");
    }
    let long = from_json(&format!(r#"{{"architecture":"{}"}}"#, "a".repeat(1 << 20)));
    assert_eq!(long.to_string(), "any/?");
}

#[test]
fn a_configuration_objects_only_to_what_it_says() {
    let guest = platform("linux/arm64");
    for (text, is_accepted) in [
        (r#"{}"#, true),
        (r#"{"os":"linux"}"#, true),
        (r#"{"os":"windows"}"#, false),
        (r#"{"architecture":"arm64"}"#, true),
        (r#"{"os":"linux","architecture":"arm64","variant":"v8"}"#, true),
        (r#"{"os":"linux","architecture":"arm","variant":"v6"}"#, true),
        (r#"{"os":"linux","architecture":"arm64","variant":"v9"}"#, false),
        (r#"{"os":"linux","architecture":"amd64"}"#, false),
        (r#"{"os":"darwin","architecture":"arm64"}"#, false),
    ] {
        assert_eq!(guest.accepts(&from_json(text)), is_accepted, "{text}");
    }
}

#[test]
fn this_guest_runs_what_was_built_for_it() {
    let guest = Platform::of_guest();
    assert_eq!(guest.rank(&guest), Some(0));
    assert_eq!(platform(&guest.to_string()), guest);
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    assert!(guest.rank(&platform("linux/amd64")).is_some());
}

proptest! {
    /// Nothing panics, what is read is shown in words, and what is shown is read as the same.
    #[test]
    fn any_platform_is_read_or_refused(
        text in "\\PC{0,20}|[a-z0-9]{1,6}/[a-zA-Z0-9_-]{1,6}(/[v0-9.]{0,5})?",
    ) {
        if let Ok(read) = Platform::parse(&text) {
            prop_assert_eq!(&platform(&read.to_string()), &read);
            prop_assert_eq!(read.rank(&read), Some(0));
        }
    }

    /// Whatever the numbers, a lower variant is never worse than one still lower.
    #[test]
    fn nearer_variants_are_better(ours: u8, one: u8, other: u8, name in "linux/(amd64|arm|arm64)") {
        let [ours, one, other] = [ours, one, other].map(|n| platform(&format!("{name}/v{n}")));
        if let (Some(first), Some(second)) = (ours.rank(&one), ours.rank(&other)) {
            prop_assert_eq!(first < second, one.rank(&other).is_some() && one != other);
        }
    }
}
