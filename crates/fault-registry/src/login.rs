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
        formatter
            .debug_struct("Login")
            .field("username", &self.username)
            .finish_non_exhaustive()
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
        Self {
            token: Some(token.to_owned()),
            ..Self::basic(username, password)
        }
    }

    fn has_password(&self, request: &Request) -> bool {
        let right = STANDARD.encode(format!("{}:{}", self.username, self.password));
        request.header("authorization") == Some(&format!("Basic {right}"))
    }
}

/// The tokens given out so far.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    count: usize,
    /// How often the newest was used; older ones are no longer good.
    used: usize,
}

impl Tokens {
    /// What is answered to someone without the right credentials; nothing to others.
    pub(super) fn challenge(&self, login: &Login, request: &Request) -> Option<Answer> {
        let Some(start) = &login.token else {
            let challenge = "Basic realm=\"fault-registry\"".to_owned();
            return (!login.has_password(request)).then(|| unauthorized(challenge));
        };
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let right = format!("Bearer {start}-{}", given.count);
        let is_good = given.count > 0
            && request.header("authorization") == Some(&right)
            && login.uses.is_none_or(|uses| given.used < uses);
        if is_good {
            given.used += 1;
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
        given.count += 1;
        given.used = 0;
        let start = login.token.as_deref().unwrap_or_default();
        let token = format!("{start}-{}", given.count);
        Answer::json(200, &json!({"token": token, "expires_in": 300}))
    }
}

fn unauthorized(challenge: String) -> Answer {
    let mut answer = Answer::error(401, "UNAUTHORIZED");
    answer.set_header("WWW-Authenticate", Some(challenge));
    answer
}
