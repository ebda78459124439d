//! What is sent along to prove who the puller is: kept while it is good, renewed before it expires
//! and when it is refused.

use foreign_text::shown;
use pull_route::Source;
use puller_config::Credentials;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::challenge::Challenge;
use crate::error::Error;
use crate::failure::Failure;
use crate::token::{self, TokenRequest};
use crate::transport::Transport;

/// The header that was accepted last, shared by everything that is in flight.
#[derive(Debug, Default)]
pub struct Authorization(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    header: Option<HeaderValue>,
    /// For a token that expires: when to ask for the next one, and whom.
    renewal: Option<(Instant, Challenge, bool)>,
}

/// A registry's "401".
#[derive(Debug)]
pub struct Challenged {
    /// What it asks for.
    pub challenges: Vec<Challenge>,
    /// What it was sent.
    pub sent: Option<HeaderValue>,
    /// Whether it was asked over plain HTTP.
    pub is_plain: bool,
}

impl Authorization {
    /// What to send with a request before being asked: a token from the document, or what was
    /// accepted before.
    pub async fn current(
        &self,
        transport: &Transport,
        source: &Source,
        repository: &str,
    ) -> Result<Option<HeaderValue>, Failure> {
        let mut state = self.0.lock().await;
        if let (None, Credentials::RegistryToken(token)) = (&state.header, &source.credentials) {
            state.header = Some(token::bearer_header(token.expose())?);
        }
        if let Some((when, challenge, is_plain)) =
            state.renewal.take_if(|(when, ..)| *when <= Instant::now())
        {
            tracing::debug!(registry = source.host(), age = ?when.elapsed(), "the token is about \
            to expire");
            state.header = None;
            state
                .fetch(transport, source, repository, challenge, is_plain)
                .await?;
        }
        Ok(state.header.clone())
    }

    /// Answers a challenge. Holding the lock, so that several layers in flight ask for one token.
    pub async fn renew(
        &self,
        transport: &Transport,
        source: &Source,
        repository: &str,
        challenged: Challenged,
    ) -> Result<HeaderValue, Failure> {
        let mut state = self.0.lock().await;
        let Challenged {
            challenges,
            sent,
            is_plain,
        } = challenged;
        if let Some(renewed) = state
            .header
            .as_ref()
            .filter(|current| Some(*current) != sent.as_ref())
        {
            return Ok(renewed.clone());
        }
        let is_anonymous = matches!(source.credentials, Credentials::Anonymous);
        if is_plain && !is_anonymous && !source.may_tell("http") {
            return Err(Error::CredentialsInClear {
                host: source.host(),
                authority: source.authority.to_string(),
            }
            .into());
        }
        let find = |scheme: &str| {
            challenges
                .iter()
                .find(|challenge| challenge.scheme == scheme)
        };
        match (find("bearer"), find("basic"), &source.credentials) {
            (_, _, Credentials::RegistryToken(_)) => Err(Error::refused(source).into()),
            (Some(bearer), _, _) => {
                state
                    .fetch(transport, source, repository, bearer.clone(), is_plain)
                    .await
            }
            // What is derived from a password does not change by asking again.
            (None, Some(_), Credentials::Basic { .. }) if sent.is_some() => {
                Err(Error::refused(source).into())
            }
            (None, Some(_), Credentials::Basic { username, password }) => {
                let header = token::basic_header(username, password.expose())?;
                state.header = Some(header.clone());
                Ok(header)
            }
            (None, _, Credentials::Anonymous) => Err(Error::refused(source).into()),
            (None, _, _) => Err(misfit(&challenges, source).into()),
        }
    }
}

impl State {
    async fn fetch(
        &mut self,
        transport: &Transport,
        source: &Source,
        repository: &str,
        challenge: Challenge,
        is_plain: bool,
    ) -> Result<HeaderValue, Failure> {
        let request = TokenRequest {
            host: &source.host(),
            repository,
            source,
            is_plain,
        };
        let token = token::fetch(transport, &challenge, &request).await?;
        let renew_at = Instant::now() + token.renew_after;
        self.renewal = Some((renew_at, challenge, is_plain));
        self.header = Some(token.header.clone());
        Ok(token.header)
    }
}

/// The credentials at hand do not fit any of the challenges.
fn misfit(challenges: &[Challenge], source: &Source) -> Error {
    let is_basic = challenges
        .iter()
        .any(|challenge| challenge.scheme == "basic");
    let rule = match &source.credentials {
        Credentials::IdentityToken { .. } if is_basic => format!(
            "asks for user name and password, but {} has an \"identitytoken\"",
            source.authority.credentials_source().0
        ),
        _ => {
            let offered: Vec<_> = challenges
                .iter()
                .map(|challenge| challenge.scheme.as_str())
                .collect();
            format!(
                "offers no way to authenticate that is known here ({})",
                shown(&offered.join(", ")).quoted()
            )
        }
    };
    Error::Challenge {
        host: source.host(),
        rule,
    }
}
