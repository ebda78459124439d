//! What one source said to a probe.

use pull_route::{EntryAccount, Source};
use registry_client::Stage;
use registry_client::registry::Registry;
use registry_config::Credentials;

use crate::error::{Error, chain};

/// A source that was asked. Nothing here is a secret.
#[derive(Debug)]
pub struct Asked {
    /// Its role and its host, such as `mirror mirror.corp`.
    pub source: String,
    /// The scheme by which it answered, if it did.
    pub scheme: Option<&'static str>,
    /// The proxy on the way, in words; empty without one.
    pub via: String,
    /// Whether a certificate is checked there at all.
    pub is_checked: bool,
    /// How it was, in words.
    pub certificate: String,
    /// Who the puller was there, in words.
    pub account: String,
    /// What was wrong.
    pub refusal: Option<Refusal>,
}

/// Why a source was no use.
#[derive(Debug)]
pub struct Refusal {
    /// How far it went.
    pub stage: Stage,
    /// In words.
    pub reason: String,
}

impl Asked {
    pub(super) async fn of(registry: &Registry, error: Option<&Error>) -> Self {
        let source = registry.source();
        let refusal = error.map(|error| Refusal { stage: stage(error), reason: chain(error) });
        Self {
            source: source.to_string(),
            scheme: registry.scheme(),
            via: registry.via(),
            is_checked: registry.scheme() != Some("http")
                && !source.authority.registry.insecure_skip_verify,
            certificate: certificate(source, registry.scheme()),
            account: account(registry).await,
            refusal,
        }
    }
}

/// How far a pull came; what came and is of no use is an answer.
fn stage(error: &Error) -> Stage {
    match error {
        Error::Registry(error) => error.stage(),
        _ => Stage::Answer,
    }
}

fn certificate(source: &Source, scheme: Option<&str>) -> String {
    let authority = &source.authority;
    if scheme == Some("http") {
        return format!("plain HTTP by {authority}, so nothing vouches for who answers");
    }
    if authority.registry.insecure_skip_verify {
        return format!("certificate NOT checked by {authority}");
    }
    format!("certificate checked, trusted roots: {}", authority.roots())
}

async fn account(registry: &Registry) -> String {
    let source = registry.source();
    let (entry, _) = source.authority.credentials_source();
    let number = registry.account();
    let used = source.accounts.iter().find(|account| Some(account.number) == number);
    let Some(EntryAccount { credentials, number }) = used else {
        let why = source.why_anonymous.as_ref();
        return why.map_or("anonymous".to_owned(), |why| format!("anonymous: {why}"));
    };
    if !registry.is_told().await {
        return format!("anonymous: it did not ask for the credentials of {entry}");
    }
    let place = match number {
        0 => String::new(),
        number => format!(", {}", EntryAccount::places(&[*number])),
    };
    let who = match credentials.shown_username() {
        // Of what is fetched where the host cannot see it not even the name is shown.
        Some(user) if !source.authority.is_fetched() => format!("user {user:?}"),
        _ => match credentials {
            Credentials::IdentityToken { .. } => "identitytoken".to_owned(),
            Credentials::RegistryToken(_) => "registrytoken".to_owned(),
            _ => "user name and password".to_owned(),
        },
    };
    format!("as {who} of {entry}{place}")
}
