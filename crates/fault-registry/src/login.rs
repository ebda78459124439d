//! Who is served: passwords and tokens.

use std::sync::Mutex;
use std::sync::PoisonError;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::request::Request;

/// What a registry wants to see before it serves.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Login {
    /// The user's name.
    pub username: String,
    /// The password.
    pub password: String,
    /// Tokens instead of the password itself: they begin so, and a number follows.
    #[serde(default)]
    pub token: Option<String>,
    /// The token server's address as the challenge names it; without it `{base}/token`, which is
    /// here.
    #[serde(default)]
    pub realm: Option<String>,
    /// How often a token is good; without it always.
    #[serde(default)]
    pub uses: Option<usize>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

impl Login {
    /// Basic authentication.
    #[must_use]
    pub fn basic(username: &str, password: &str) -> Self {
        Self {
            username: username.to_owned(),
            password: password.to_owned(),
            token: None,
            realm: None,
            uses: None,
        }
    }

    /// Tokens, to be had for a password.
    #[must_use]
    pub fn bearer(username: &str, password: &str, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..Self::basic(username, password) }
    }

    fn has_password(&self, request: &Request) -> bool {
        let right = STANDARD.encode(format!("{}:{}", self.username, self.password));
        request.header("authorization") == Some(&format!("Basic {right}"))
    }
}

/// How often each of the tokens given out so far was used. All of them are good, as with real token
/// servers: two pulls at once each have their own.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<Vec<usize>>);

impl Tokens {
    /// What is answered to someone without the right credentials; nothing to others.
    pub(super) fn challenge(&self, login: &Login, request: &Request) -> Option<Answer> {
        let Some(start) = &login.token else {
            let challenge = "Basic realm=\"fault-registry\"".to_owned();
            return (!login.has_password(request)).then(|| unauthorized(challenge));
        };
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = request
            .header("authorization")
            .and_then(|header| header.strip_prefix("Bearer ")?.strip_prefix(start.as_str()))
            .and_then(|rest| rest.strip_prefix('-')?.parse::<usize>().ok());
        let used = number.and_then(|number| given.get_mut(number.checked_sub(1)?));
        if let Some(used) = used
            && login.uses.is_none_or(|uses| *used < uses)
        {
            *used += 1;
            return None;
        }
        let realm = login.realm.as_deref().unwrap_or("{base}/token");
        Some(unauthorized(format!(
            "Bearer realm=\"{realm}\",service=\"fault-registry\",scope=\"repository:any:pull\""
        )))
    }

    /// The token server's answer.
    pub(super) fn give(&self, login: &Login, request: &Request) -> Answer {
        if !login.has_password(request) {
            return unauthorized("Basic realm=\"tokens\"".to_owned());
        }
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.push(0);
        let start = login.token.as_deref().unwrap_or_default();
        let token = format!("{start}-{}", given.len());
        Answer::json(200, &json!({"token": token, "expires_in": 300}))
    }
}

fn unauthorized(challenge: String) -> Answer {
    let mut answer = Answer::error(401, "UNAUTHORIZED");
    answer.set_header("WWW-Authenticate", Some(challenge));
    answer
}
