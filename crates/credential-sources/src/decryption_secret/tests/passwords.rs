//! Passwords in lists, which are base64 or stand there as they are, and secrets without a key.

use super::*;

fn list(password: &str) -> String {
    format!("{}:{password}", base64(ENCRYPTED))
}

#[test]
fn a_password_is_read_as_base64_and_as_it_stands() {
    let encoded = base64(PASSWORD);
    for (password, how) in [
        (encoded.as_str(), "in base64"),
        (encoded.trim_end_matches('='), "in base64"),
        // It happens to be base64 of something else.
        ("test", "as it is"),
    ] {
        let imported = file(list(password).as_bytes());
        let what = format!("Note FILE: a private key, P-256; its password is written {how}");
        assert_eq!(told(&imported), [what]);
        let item = items(&imported)[0];
        let DecryptionKey::Given { password, .. } = DecryptionKey::parse(item).unwrap() else {
            panic!("{item}")
        };
        assert_eq!(password.unwrap().as_slice(), PASSWORD);
    }
    // Both readings of one key are one key.
    let both = [list("test"), with_password(ENCRYPTED)].join(",");
    let imported = file(both.as_bytes());
    assert_eq!(items(&imported), [with_password(ENCRYPTED)]);
    let same = "Note FILE: item 2: a private key, P-256, the same as that of FILE: item 1";
    assert_eq!(told(&imported)[1], same);
}

#[test]
fn a_password_that_opens_nothing_is_told_as_such() {
    // The first is no base64 at all, the last one is what no list of base64 has.
    for password in ["hunter2!", "p@ss: word", "\u{e4}\u{f6}"] {
        let imported = file(list(password).as_bytes());
        assert!(imported.keys.is_empty());
        let wrong = "Lost FILE: left out: its password opens it neither as base64 nor as it \
            stands, or it is damaged";
        assert_eq!(told(&imported), [wrong], "{password}");
    }
    let both = format!("{},{}", list("hunter2!"), base64(PEM));
    assert_eq!(items(&file(both.as_bytes())), [base64(PEM)]);
    // What is behind a colon decides nothing about what is before it.
    let manifest = file(b"hunter2: [");
    assert!(manifest.faults[0].text.contains("it is not a manifest"));
}

#[test]
fn a_password_that_is_not_needed_is_left_out() {
    for password in ["test", "dGVzdA==", "t!"] {
        let imported = file(format!("{}:{password}", base64(PEM)).as_bytes());
        assert_eq!(items(&imported), [base64(PEM)]);
        let what = "Note FILE: a private key, P-256; it needs no password";
        assert_eq!(told(&imported), [what]);
    }
}

#[test]
fn a_secret_without_keys_adds_nothing_and_says_so() {
    let none = "it has no key in it, and adds none: a key is a value with a private key in PEM, \
        DER or as JWK, or with a list base64(key)[:password]";
    for data in [&[][..], &[("tls.crt", PUBLIC)]] {
        let imported = file(manifest("Opaque", data).as_bytes());
        assert!(imported.keys.is_empty() && imported.faults.is_empty());
        assert_eq!(told(&imported)[0], format!("Lost FILE: secret team/keys: {none}"));
    }
    assert_eq!(told(&mounted(&[])), [format!("Lost DIR: {none}")]);
    let empty = file(manifest("Opaque", &[("keys", b"")]).as_bytes());
    let left_out = "Lost FILE: secret team/keys: keys: left out: it is empty";
    assert_eq!(told(&empty), [left_out]);
}
