//! What is sent along to prove who the puller is: kept while it is good, renewed before it expires
//! and when it is refused.

use std::sync::atomic::{AtomicUsize, Ordering};

use foreign_text::shown;
use pull_route::{EntryAccount, Source};
use registry_config::Credentials;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::challenge::Challenge;
use crate::error::Error;
use crate::failure::Failure;
use crate::token::{self, TokenRequest};
use crate::transport::Transport;

/// The account and the header that were accepted last, shared by everything that is in flight.
#[derive(Debug, Default)]
pub struct Authorization {
    state: Mutex<State>,
    /// Which account of the source is in use, from 0. Changed with the lock on the state only.
    account: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Why the accounts before this one are not, with their places in the entry.
    refusals: Vec<(usize, Error)>,
    header: Option<HeaderValue>,
    /// Whether other requests than the one that the header was made for carry it, too.
    is_shared: bool,
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

/// What answers a challenge.
#[derive(Debug)]
pub enum Renewed {
    /// Made for this request.
    Own(HeaderValue),
    /// Made for another one, which may have used it up.
    Shared(HeaderValue),
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
        let mut state = self.state.lock().await;
        let credentials = source.credentials(self.account());
        if let (None, Credentials::RegistryToken(token)) = (&state.header, credentials) {
            state.header = Some(token::bearer_header(token.expose())?);
        }
        if let Some((when, challenge, is_plain)) =
            state.renewal.take_if(|(when, ..)| *when <= Instant::now())
        {
            tracing::debug!(registry = source.host(), age = ?when.elapsed(), "the token is about \
            to expire");
            state.header = None;
            let request =
                TokenRequest { host: &source.host(), repository, source, credentials, is_plain };
            state.fetch(transport, request, challenge).await?;
        }
        state.is_shared = true;
        Ok(state.header.clone())
    }

    /// Answers a challenge. Holding the lock, so that several layers in flight ask for one token.
    pub async fn renew(
        &self,
        transport: &Transport,
        source: &Source,
        repository: &str,
        challenged: Challenged,
    ) -> Result<Renewed, Failure> {
        let mut state = self.state.lock().await;
        let credentials = source.credentials(self.account());
        let Challenged { challenges, sent, is_plain } = challenged;
        if let Some(renewed) = state.header.clone().filter(|it| Some(it) != sent.as_ref()) {
            state.is_shared = true;
            return Ok(Renewed::Shared(renewed));
        }
        if is_plain && !credentials.is_anonymous() && !source.may_tell("http") {
            return Err(Error::account(format!(
                "{} answers over plain HTTP and asks for the credentials of {}, which are sent \
                that way only with \"plain-http = true\"",
                source.host(),
                source.authority
            ))
            .into());
        }
        let find = |scheme: &str| challenges.iter().find(|challenge| challenge.scheme == scheme);
        match (find("bearer"), find("basic"), credentials) {
            (_, _, Credentials::RegistryToken(_)) => {
                Err(Failure::of_account(Error::refused(source)))
            }
            (Some(bearer), _, _) => {
                let request = TokenRequest {
                    host: &source.host(),
                    repository,
                    source,
                    credentials,
                    is_plain,
                };
                let header = state.fetch(transport, request, bearer.clone()).await?;
                Ok(Renewed::Own(header))
            }
            // What is derived from a password does not change by asking again.
            (None, Some(_), Credentials::Basic { .. }) if sent.is_some() => {
                Err(Failure::of_account(Error::refused(source)))
            }
            (None, Some(_), Credentials::Basic { username, password }) => {
                let header = token::basic_header(username, password.expose())?;
                (state.header, state.is_shared) = (Some(header.clone()), false);
                Ok(Renewed::Own(header))
            }
            (None, _, Credentials::Anonymous) => Err(Error::refused(source).into()),
            (None, _, _) => Err(misfit(&challenges, source, credentials)),
        }
    }

    /// Returns whether other requests may have used up what was made for this one: a registry may
    /// count uses, and answers the others later.
    pub async fn may_be_used_up(&self, sent: Option<&HeaderValue>) -> bool {
        let state = self.state.lock().await;
        state.is_shared || state.header.as_ref() != sent
    }

    /// Whether anything was sent along.
    pub async fn is_told(&self) -> bool {
        self.state.lock().await.header.is_some()
    }

    /// Which account of the source is in use, from 0.
    pub fn account(&self) -> usize {
        self.account.load(Ordering::Acquire)
    }

    /// Goes on to the next account after a failure of the one that was in use. Each is tried once:
    /// there is no way back.
    ///
    /// # Errors
    ///
    /// The failure, where it is about something else than the account; what became of each, where
    /// there is no next one.
    pub async fn next_account(
        &self,
        refused: usize,
        source: &Source,
        failure: Failure,
    ) -> Result<(), Failure> {
        if !failure.is_about_account || source.accounts.len() < 2 {
            return Err(failure);
        }
        let mut state = self.state.lock().await;
        // Another request has found out before.
        if self.account() != refused {
            return Ok(());
        }
        let Some(account) = source.accounts.get(refused) else {
            return Err(failure);
        };
        state.refusals.push((account.number, failure.error));
        (state.header, state.renewal) = (None, None);
        if refused + 1 == source.accounts.len() {
            let refusals = std::mem::take(&mut state.refusals);
            return Err(Error::accounts_refused(&refusals).into());
        }
        self.account.store(refused + 1, Ordering::Release);
        tracing::info!(
            registry = source.host(),
            "{} of {} was refused, the next account is tried",
            EntryAccount::places(&[account.number]),
            source.authority.credentials_source().0
        );
        Ok(())
    }
}

impl State {
    async fn fetch(
        &mut self,
        transport: &Transport,
        request: TokenRequest<'_>,
        challenge: Challenge,
    ) -> Result<HeaderValue, Failure> {
        let is_plain = request.is_plain;
        let token = token::fetch(transport, &challenge, &request).await?;
        let renew_at = Instant::now() + token.renew_after;
        self.renewal = Some((renew_at, challenge, is_plain));
        self.header = Some(token.header.clone());
        self.is_shared = false;
        Ok(token.header)
    }
}

/// The credentials at hand do not fit any of the challenges.
fn misfit(challenges: &[Challenge], source: &Source, credentials: &Credentials) -> Failure {
    let is_basic = challenges.iter().any(|challenge| challenge.scheme == "basic");
    let is_other_kind = is_basic && matches!(credentials, Credentials::IdentityToken { .. });
    let rule = match credentials {
        Credentials::IdentityToken { .. } if is_basic => format!(
            "asks for user name and password, but {} has an \"identitytoken\"",
            source.authority.credentials_source().0
        ),
        _ => {
            let offered: Vec<_> =
                challenges.iter().map(|challenge| challenge.scheme.as_str()).collect();
            format!(
                "offers no way to authenticate that is known here ({})",
                shown(&offered.join(", ")).quoted()
            )
        }
    };
    let error = Error::account(format!("{} {rule}", source.host()));
    match is_other_kind {
        true => Failure::of_account(error),
        false => error.into(),
    }
}
