//! What each document means, warns about or has wrong: `cases/host`, and `cases/both` for the keys
//! of which a measured document says something else.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry_config::{Checked, Credentials, DecryptionKey, Document, Problems};
use test_command::{hold_cases, side_by_side};

#[test]
fn documents_of_the_host() {
    hold_cases("host", |text| {
        let (findings, document) = read(Document::parse, text);
        findings.join("\n") + "\n" + &document.unwrap_or_default()
    });
}

/// What only one of the two readers says begins with its name.
#[test]
fn documents_of_the_host_and_of_the_owner() {
    hold_cases("both", |text| {
        let (host, of_host) = read(Document::parse, text);
        let (measured, of_owner) = read(Document::parse_measured, text);
        let (host, measured) = (host.join("\n"), measured.join("\n"));
        let answer = side_by_side(("host", &host), ("measured", &measured));
        if let (Some(of_host), Some(of_owner)) = (&of_host, &of_owner) {
            assert_eq!(of_host, of_owner, "{text}");
        }
        answer + &of_host.or(of_owner).unwrap_or_default()
    });
}

/// The problems of a document, or its warnings and what it means.
fn read(read: fn(&[u8]) -> Result<Checked, Problems>, text: &str) -> (Vec<String>, Option<String>) {
    match read(text.as_bytes()) {
        Ok(Checked { document, warnings, .. }) => {
            let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
            (warnings.collect(), Some(meaning(&document)))
        }
        Err(problems) => {
            let shown = problems.to_string();
            assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
            (shown.lines().map(str::to_owned).collect(), None)
        }
    }
}

/// The document as it is shown, less what holds for every one, and then its secrets.
fn meaning(document: &Document) -> String {
    let mut shown = String::new();
    let redacted = document.redacted();
    let absent = if document.has_extra_env { "" } else { "[extra-env]" };
    let everywhere = ["", absent, "[registries]", "insecure-skip-verify = false"];
    for line in redacted.lines().filter(|line| !everywhere.contains(line)) {
        if line != "plain-http = false" {
            writeln!(shown, "{line}").unwrap();
        }
    }
    let mut say = |words: std::fmt::Arguments<'_>| writeln!(shown, "secret: {words}").unwrap();
    for (_, entry) in document.registries.iter() {
        for credentials in [&entry.credentials].into_iter().chain(&entry.also) {
            match credentials {
                Credentials::Anonymous => {}
                Credentials::Basic { username, password } => {
                    say(format_args!("basic {username:?} {:?}", password.expose()));
                }
                Credentials::RegistryToken(token) => {
                    say(format_args!("bearer {:?}", token.expose()))
                }
                Credentials::IdentityToken { username, token } => {
                    say(format_args!("refresh {username:?} {:?}", token.expose()));
                }
            }
        }
    }
    let keys = &document.decryption_keys;
    for key in keys.all.iter().chain(keys.of.values().flatten()) {
        match key {
            DecryptionKey::Given { key, password } => {
                let password = password.as_ref().map(|password| STANDARD.encode(password));
                say(format_args!("key {} {password:?}", STANDARD.encode(key)));
            }
            DecryptionKey::Reference(_) => {}
        }
    }
    shown
}
