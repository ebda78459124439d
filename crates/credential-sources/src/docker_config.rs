//! Docker's credential files: `config.json`, `auth.json` and what the secrets for image pulls hold,
//! made into offers.
//!
//! The room `docker-config` reads them, and says there how it reads what others read differently.
//! Here is what a document can have of them:
//!
//! | case | here |
//! |---|---|
//! | path in a key | an entry for these repositories, see [`key`] |
//! | pattern in a key | widened on request only, see [`key`] |
//! | a key without a port | holds for every port, as everywhere in the document |
//! | `reg.corp` and `reg.corp:443` | one registry, of which one key counts |
//! | several inputs for one registry | each an account, tried in secretgen's order |
//! | `credHelpers`, `credsStore` | reported: a helper is a program on somebody's machine |

mod combine;
#[cfg(test)]
mod tests;

pub use ::docker_config::{
    ConfigError, DockerConfig, Entry, MAX_CONFIG_BYTES, MAX_ENTRIES, Shape, key, shape,
};
pub use combine::{Input, Widening, offers};

use crate::{Finding, Loss, printable};

/// The longest name of a host or helper that is put into a command line. Free to change.
const MAX_WORD_BYTES: usize = 255;

/// What a file says beside its entries, which nothing here does.
fn findings(config: &DockerConfig, source: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find =
        |key: &str, loss, text: &str| findings.push(Finding::new(source, key, loss, text));
    if let Some(store) = &config.store {
        let text = format!(
            "credentials kept by a helper program are not read; for each registry, {}",
            asking("HOST", store)
        );
        find("credsStore", Loss::Lost, &text);
    }
    if config.has_headers {
        let text = "left out: the image puller sends no headers of others";
        find("HttpHeaders", Loss::Lost, text);
    }
    for (registry, helper) in &config.helpers {
        let key = format!("credHelpers {}", printable(registry));
        let host = match is_word(registry) {
            true => registry,
            false => "HOST",
        };
        let text = format!(
            "its helper program is not run, so its credentials are missing; {}",
            asking(host, helper)
        );
        find(&key, Loss::Lost, &text);
    }
    for key in &config.repeated {
        let text = "written more than once; the last one counts";
        find(&printable(key), Loss::Note, text);
    }
    findings
}

/// How a person asks a helper for the account of `host`, and where that goes.
fn asking(host: &str, helper: &str) -> String {
    let helper = match is_word(helper) {
        true => helper,
        false => "NAME",
    };
    format!(
        "ask it with \"echo {host} | docker-credential-{helper} get\", and give the Secret that it \
        answers to \"kata-configdev new --into DOCUMENT --registry {host} --user USERNAME \
        --password-stdin\""
    )
}

/// Whether a text can stand in a command line as it is, and is short enough.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    (1..=MAX_WORD_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}
