//! Which entry holds for a repository. A mistake here would send a password to the wrong server.

use std::cmp::Ordering;

use registry_config::{Credentials, RegistryHost};
use thiserror::Error;

use crate::{DockerConfig, Entry, Unusable, key};

/// Why the entry for a repository is not used. Names neither keys nor values: the reader of the
/// message may not be allowed to see the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Two readers could take different credentials from the file.
    #[error(
        "it says two things about that registry; write one key for it, once, with each member once"
    )]
    Ambiguous,
    /// There is an entry, and nothing in it.
    #[error("its entry for that registry holds no credentials")]
    Empty,
    /// There are credentials, but not such as can be sent.
    #[error("its entry for that registry is of no use: {0}")]
    Unusable(#[from] Unusable),
}

impl DockerConfig {
    /// The credentials for a repository, such as `team/app`, of a registry; `None` if no key names
    /// the two.
    ///
    /// - A key holds for the host that it names, see [`key`]. Patterns hold for nothing, since a
    ///   password is only for a registry that its owner *named*.
    /// - A key without a port is the registry at port 443, which an image may write or leave out.
    ///   Other ports of the host have keys of their own: another program may listen there.
    /// - A key with a path holds for the repository of that name and those below it, by whole
    ///   segments. The longest wins.
    /// - Two keys that stand for the same must say the same; and where a member is written twice,
    ///   nothing is chosen.
    ///
    /// # Errors
    ///
    /// [`Unfit`] where there is an entry that is not used. That is no reason to pull anonymously.
    pub fn credentials_for(
        &self,
        host: &RegistryHost,
        repository: &str,
    ) -> Result<Option<Credentials>, Unfit> {
        let mut longest = 0;
        let mut found: Vec<(&String, &Entry)> = Vec::new();
        for entry in &self.entries {
            let Some(length) = key::reach(entry.0, host, repository) else {
                continue;
            };
            match length.cmp(&longest) {
                Ordering::Less => continue,
                Ordering::Equal => {}
                Ordering::Greater => found.clear(),
            }
            longest = length;
            found.push(entry);
        }
        let is_ambiguous = |(key, entry): &(&String, &Entry)| {
            self.has_several_tables || entry.is_ambiguous || self.repeated.contains(key)
        };
        if found.iter().any(is_ambiguous) {
            return Err(Unfit::Ambiguous);
        }
        let mut chosen: Option<Credentials> = None;
        for (_, entry) in found {
            let credentials = entry.meaning()?.credentials;
            if credentials.is_anonymous() {
                return Err(Unfit::Empty);
            }
            match &chosen {
                Some(other) if sent(other) != sent(&credentials) => return Err(Unfit::Ambiguous),
                _ => chosen = Some(credentials),
            }
        }
        Ok(chosen)
    }
}

/// What the puller sends: the kind, the user and the secret. Credentials that are compared come from
/// one file, so the time that this takes reveals nothing.
fn sent(credentials: &Credentials) -> (&'static str, Option<&str>, &str) {
    match credentials {
        Credentials::Anonymous => ("anonymous", None, ""),
        Credentials::Basic { username, password } => ("basic", Some(username), password.expose()),
        Credentials::RegistryToken(token) => ("registry", None, token.expose()),
        Credentials::IdentityToken { username, token } => {
            ("identity", username.as_deref(), token.expose())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    /// A file of these keys, whose user names are the keys' places, from 0.
    fn file(keys: &[&str]) -> String {
        let entry = |(at, key): (usize, &&str)| {
            let auth = BASE64_STANDARD.encode(format!("{at}:hunter2"));
            format!("\"{key}\":{{\"auth\":\"{auth}\"}}")
        };
        let entries: Vec<_> = keys.iter().enumerate().map(entry).collect();
        format!("{{\"auths\":{{{}}}}}", entries.join(","))
    }

    /// Who the puller is to an image's registry.
    fn chosen(json: &str, image: &str) -> Result<Option<String>, Unfit> {
        let (host, repository) = image.split_once('/').unwrap();
        let host = RegistryHost::parse(host).unwrap();
        let config = DockerConfig::parse(json.as_bytes()).unwrap();
        let show = |credentials| match credentials {
            Credentials::Basic { username, .. } => username,
            Credentials::IdentityToken { username, token } => {
                format!("{} {}", username.unwrap_or_default(), token.expose())
            }
            Credentials::RegistryToken(token) => token.expose().to_owned(),
            Credentials::Anonymous => panic!("anonymous"),
        };
        Ok(config.credentials_for(&host, repository)?.map(show))
    }

    #[test]
    fn a_key_holds_for_what_it_names_and_for_nothing_else() {
        for (key, image) in [
            ("ghcr.io", "ghcr.io/team/app"),
            ("https://ghcr.io/v1/", "GHCR.io./team/app"),
            ("http://ghcr.io/v2/", "ghcr.io:443/app"),
            ("ghcr.io:443", "ghcr.io/app"),
            ("ghcr.io:5000", "ghcr.io:5000/app"),
            ("[0::1]:5000", "[::1]:5000/app"),
            ("https://index.docker.io/v1/", "docker.io/library/alpine"),
            ("docker.io", "registry-1.docker.io/library/alpine"),
            ("quay.io/team", "quay.io/team"),
            ("quay.io/team/", "quay.io/team/app"),
            ("https://quay.io/v2/team/app", "quay.io/team/app"),
            ("docker.io/library", "index.docker.io/library/alpine"),
        ] {
            let found = chosen(&file(&[key]), image);
            assert_eq!(found, Ok(Some("0".to_owned())), "{key} {image}");
        }
        for (key, image) in [
            ("ghcr.io", "ghcr.io:5000/app"),
            ("ghcr.io:5000", "ghcr.io/app"),
            ("ghcr.io:80", "ghcr.io/app"),
            ("ghcr.io", "sub.ghcr.io/app"),
            ("sub.ghcr.io", "ghcr.io/app"),
            (".ghcr.io", "sub.ghcr.io/app"),
            (".", "ghcr.io/app"),
            ("*", "ghcr.io/app"),
            ("*.io", "ghcr.io/app"),
            ("ghcr.?o", "ghcr.io/app"),
            ("", "ghcr.io/app"),
            ("u@ghcr.io", "ghcr.io/app"),
            ("ghcr.io?x", "ghcr.io/app"),
            ("HTTPS://ghcr.io", "ghcr.io/app"),
            ("docker.io", "docker.io:5000/library/alpine"),
            ("docker.io", "auth.docker.io/x"),
            ("ghcr.io//", "ghcr.io/app"),
            ("ghcr.io/v2/app//", "ghcr.io/app"),
            ("https://ghcr.io/v2", "ghcr.io/app"),
            ("quay.io/team", "quay.io/teams/app"),
            ("quay.io/team", "quay.io/other/team"),
            ("quay.io/team/app", "quay.io/team"),
            ("quay.io/Team", "quay.io/team/app"),
            ("quay.io/*", "quay.io/team/app"),
        ] {
            assert_eq!(chosen(&file(&[key]), image), Ok(None), "{key} {image}");
        }
    }

    #[test]
    fn the_longest_path_wins() {
        let keys =
            ["quay.io", "quay.io/team", "quay.io/team/app", "quay.io/tea", "ghcr.io/team/app"];
        for (image, expected) in [
            ("quay.io/team/app", "2"),
            ("quay.io/team/app/part", "2"),
            ("quay.io/team/application", "1"),
            ("quay.io/team", "1"),
            ("quay.io/teams", "0"),
            ("quay.io/tea/x", "3"),
        ] {
            let found = chosen(&file(&keys), image);
            assert_eq!(found, Ok(Some(expected.to_owned())), "{image}");
        }
        assert_eq!(chosen(&file(&keys), "ghcr.io/team"), Ok(None));
    }

    #[test]
    fn what_could_mean_two_things_is_not_chosen() {
        let auth = |text: &str| format!("{{\"auth\":\"{}\"}}", BASE64_STANDARD.encode(text));
        let (one, other) = (auth("a:hunter2"), auth("b:hunter3"));
        for (json, expected) in [
            (
                format!("{{\"auths\":{{\"r.io\":{one},\"https://r.io/v1/\":{one}}}}}"),
                Ok(Some("a".to_owned())),
            ),
            (
                format!("{{\"auths\":{{\"r.io\":{one},\"https://r.io/v1/\":{other}}}}}"),
                Err(Unfit::Ambiguous),
            ),
            (
                format!("{{\"auths\":{{\"r.io\":{one},\"r.io:443\":{other}}}}}"),
                Err(Unfit::Ambiguous),
            ),
            (
                format!("{{\"auths\":{{\"r.io/t\":{one},\"r.io/t/\":{other}}}}}"),
                Err(Unfit::Ambiguous),
            ),
            // The shorter ones are not asked.
            (
                format!("{{\"auths\":{{\"r.io/t\":{one},\"r.io\":{one},\"r.io/\":{other}}}}}"),
                Ok(Some("a".to_owned())),
            ),
            (format!("{{\"auths\":{{\"r.io\":{one},\"r.io\":{one}}}}}"), Err(Unfit::Ambiguous)),
            (
                format!("{{\"auths\":{{\"r.io\":{one},\"x.io\":{one},\"x.io\":{one}}}}}"),
                Ok(Some("a".to_owned())),
            ),
            (
                format!("{{\"auths\":{{\"r.io\":{one}}},\"Auths\":{{\"x.io\":{one}}}}}"),
                Err(Unfit::Ambiguous),
            ),
            (
                format!(
                    "{{\"auths\":{{\"r.io\":{{\"auth\":null,\"AUTH\":\"{}\"}}}}}}",
                    BASE64_STANDARD.encode("a:p")
                ),
                Err(Unfit::Ambiguous),
            ),
            (
                format!(
                    "{{\"auths\":{{\"r.io\":{{\"auth\":\"x\",\"AUTH\":\"{}\"}}}}}}",
                    BASE64_STANDARD.encode("a:p")
                ),
                Err(Unfit::Ambiguous),
            ),
            ("{\"auths\":{\"r.io\":{},\"https://r.io\":{}}}".to_owned(), Err(Unfit::Empty)),
            (format!("{{\"auths\":{{\"r.io\":{{}},\"r.io/\":{one}}}}}"), Err(Unfit::Empty)),
            ("{\"auths\":{\"r.io\":null}}".to_owned(), Err(Unfit::Empty)),
            (
                "{\"auths\":{\"r.io\":{\"auth\":\"hunter2\"}}}".to_owned(),
                Err(Unfit::Unusable(Unusable::NotBase64)),
            ),
            ("{}".to_owned(), Ok(None)),
            ("{\"x\":\"hunter2\"}".to_owned(), Ok(None)),
            ("{\"credsStore\":\"x\",\"credHelpers\":{\"r.io\":\"y\"}}".to_owned(), Ok(None)),
        ] {
            let found = chosen(&json, "r.io/t");
            assert_eq!(found, expected, "{json}");
            if let Err(unfit) = found {
                assert!(!unfit.to_string().contains("hunter"), "{unfit}");
            }
        }
    }

    #[test]
    fn what_no_request_can_carry_is_no_credential() {
        let control = BASE64_STANDARD.encode("a\u{1b}:p");
        for (fields, expected) in [
            ("\"registrytoken\":\"t\"".to_owned(), Some("t")),
            ("\"registrytoken\":\"a b\"".to_owned(), None),
            ("\"identitytoken\":\"t\"".to_owned(), Some(" t")),
            (
                format!("\"identitytoken\":\"t\",\"auth\":\"{}\"", BASE64_STANDARD.encode("me:")),
                Some("me t"),
            ),
            ("\"identitytoken\":\"t\",\"auth\":\"!\",\"username\":\"me\"".to_owned(), Some(" t")),
            ("\"identitytoken\":\"a\\nb\"".to_owned(), None),
            (format!("\"auth\":\"{control}\""), None),
            ("\"username\":\"a:b\",\"password\":\"p\"".to_owned(), None),
            (
                format!(
                    "\"username\":\"a\",\"password\":\"{}\"",
                    "p".repeat(registry_config::MAX_CREDENTIAL_BYTES + 1)
                ),
                None,
            ),
        ] {
            let json = format!("{{\"auths\":{{\"r.io\":{{{fields}}}}}}}");
            let found = chosen(&json, "r.io/app");
            match expected {
                Some(expected) => assert_eq!(found, Ok(Some(expected.to_owned())), "{fields}"),
                None => assert!(matches!(found, Err(Unfit::Unusable(_))), "{fields}"),
            }
        }
    }
}
