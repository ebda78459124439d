//! Keys that came after the RFC. A guest that does not know one has to refuse the whole document
//! and name the key, as this one does with any other that it does not know.

use puller_config::{Checked, Document, Problems};

use crate::problems::ROOT;

/// How a document of one of the two is read.
type Read = fn(&[u8]) -> Result<Checked, Problems>;

/// A document that is right, and the key that it is about.
fn documents() -> Vec<(Read, String, &'static str)> {
    let entry = |keys: &str| format!("[registries.r]\n{keys}\n");
    let login = "username = 'a'\npassword = 'b'\n";
    let key = "-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n";
    let identity = entry(&format!("client-cert = '''\n{ROOT}'''\nclient-key = '''\n{key}'''"));
    let of_host = [
        (entry("mirrors = ['https://m']"), "mirrors"),
        (entry("mirrors = [{url = 'https://m', prefix = 'a'}]"), "prefix"),
        (entry("mirror = 'https://m'\nrewrite = [{from = 'a', to = 'b'}]"), "rewrite"),
        (entry(&format!("{login}also = [{{auth = 'OmE='}}]")), "also"),
        (identity.clone(), "client-cert"),
        (identity, "client-key"),
        (entry(&format!("ca-certs = '''\n{ROOT}'''\nca-dates = false")), "ca-dates"),
        (format!("[registries.\"r/team\"]\n{login}"), "username"),
        ("[decryption-keys.\"r/team\"]\nkeys = ['YQ']\n".into(), "keys"),
    ];
    let of_owner = [
        (entry("anonymous = true"), "anonymous"),
        ("[limits]\nattempts = 3\n".into(), "limits"),
        ("[limits]\nattempts = 3\n".into(), "attempts"),
        ("[limits]\nstall-timeout = 3\n".into(), "stall-timeout"),
        ("[limits]\nlayers-at-once = 3\n".into(), "layers-at-once"),
    ];
    let with = |read: Read| move |(text, key)| (read, text, key);
    let of_host = of_host.into_iter().map(with(Document::parse));
    let of_owner = of_owner.into_iter().map(with(Document::parse_measured));
    of_host.chain(of_owner).collect()
}

#[test]
fn a_key_that_is_not_known_is_refused_by_its_name() {
    for (read, text, key) in documents() {
        let right = read(text.as_bytes());
        assert!(right.is_ok(), "{text}\n{}", right.unwrap_err());
        // As an older guest sees it, which has no such key.
        for unknown in [format!("{key}-2"), key.to_uppercase(), format!("x{key}")] {
            let at = text.rfind(key).unwrap();
            let text = [&text[..at], &unknown, &text[at + key.len()..]].concat();
            let problems = read(text.as_bytes()).unwrap_err().to_string();
            let is_named = |line: &str| line.contains(&unknown) && line.contains(": unknown key");
            assert!(problems.lines().any(is_named), "{text}\n{problems}");
        }
    }
}
