//! Invariant: credentials are for a registry that a key names by the host's reading too, and are
//! such as a request can carry.
#![cfg_attr(fuzzing, no_main)]

use docker_config::DockerConfig;
use docker_config::key::{Meaning, meaning};
use registry_config::{Credentials, RegistryHost};

/// Whether the host's reader takes a key for this registry or some of its repositories.
fn names(key: &str, host: &RegistryHost) -> bool {
    let (Meaning::Registry(name) | Meaning::Wider { name, .. }) = meaning(key) else {
        return false;
    };
    let name = name.to_string();
    let named = name.split_once('/').map_or(&*name, |(named, _)| named);
    RegistryHost::parse(named).is_ok_and(|named| named == *host)
}

fn is_sendable(credentials: &Credentials) -> bool {
    let is_text = |text: &str| !text.contains(char::is_control);
    match credentials {
        Credentials::Anonymous => false,
        Credentials::Basic { username, password } => {
            let password = password.expose();
            let is_empty = username.is_empty() && password.is_empty();
            let password = password.replace(['\n', '\r', '\t'], "");
            !is_empty && !username.contains(':') && is_text(username) && is_text(&password)
        }
        Credentials::RegistryToken(token) => {
            token.expose().bytes().all(|byte| byte.is_ascii_graphic())
        }
        Credentials::IdentityToken { username, token } => {
            let username = username.as_deref().unwrap_or("-");
            !username.is_empty() && is_text(username) && is_text(token.expose())
        }
    }
}

// The first line is an image, the rest a file.
fuzzing::target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return;
    };
    let (image, file) = (std::str::from_utf8(&bytes[..end]), &bytes[end..]);
    let Some((host, repository)) = image.ok().and_then(|image| image.split_once('/')) else {
        return;
    };
    let (Ok(host), Ok(config)) = (RegistryHost::parse(host), DockerConfig::parse(file)) else {
        return;
    };
    match config.credentials_for(&host, repository) {
        Ok(None) => {}
        Ok(Some(credentials)) => {
            assert!(is_sendable(&credentials));
            assert!(config.entries.keys().any(|key| names(key, &host)));
        }
        Err(unfit) => {
            assert!(!unfit.to_string().contains(char::is_control));
            assert!(config.entries.keys().any(|key| names(key, &host)));
        }
    }
});
