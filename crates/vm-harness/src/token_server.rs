//! A token server for `docker-registry`: over TLS, it gives a short-lived token for one repository
//! to a client that sends the password or the refresh token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use test_http::pki::Authority;
use test_http::{Request, Server, head, ok};

use crate::Scratch;
use crate::token::{SERVICE, TokenSigner};

/// How long a registry takes a token of this server.
const LIFETIME: Duration = Duration::from_secs(120);

/// The refresh token that gets a token.
pub const REFRESH_TOKEN: &str = "a-refresh-token";

/// A running token server on a free port of 127.0.0.1; stopped when dropped.
#[derive(Debug)]
pub struct TokenServer {
    name: String,
    server: Server,
    tokens: Arc<Tokens>,
}

#[derive(Debug)]
struct Tokens {
    signer: TokenSigner,
    /// The value of `Authorization` that gets a token.
    authorization: String,
    /// Also lets in one request at a time: the signer writes a file of one name.
    given: Mutex<Given>,
}

/// What came of the requests so far.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The scopes that tokens were given for.
    pub scopes: Vec<String>,
    /// The tokens.
    pub tokens: Vec<String>,
}

impl TokenServer {
    /// Starts a server that shows a certificate of `authority` for `name`.
    ///
    /// # Errors
    ///
    /// Where the key for the tokens cannot be made, or there is no port.
    pub fn start(
        scratch: &Scratch,
        authority: &Authority,
        name: &str,
        username: &str,
        password: &str,
    ) -> Result<Self> {
        let login = STANDARD.encode(format!("{username}:{password}"));
        let tokens = Arc::new(Tokens {
            signer: TokenSigner::new(scratch)?,
            authorization: format!("Basic {login}"),
            given: Mutex::default(),
        });
        let (giving, tls) = (tokens.clone(), authority.server_config(&[name])?);
        let answer = move |request: &Request| giving.answer(request);
        let server = Server::listen(([127, 0, 0, 1], 0).into(), Some(tls), answer)?;
        Ok(Self { name: name.to_owned(), server, tokens })
    }

    /// The port it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.server.port
    }

    /// The key that a registry has to know.
    #[must_use]
    pub fn signer(&self) -> &TokenSigner {
        &self.tokens.signer
    }

    /// The address to which a registry sends its clients.
    #[must_use]
    pub fn realm(&self) -> String {
        format!("https://{}:{}/token", self.name, self.server.port)
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }

    /// What it gave so far.
    #[must_use]
    pub fn given(&self) -> Given {
        let given = self.tokens.given.lock();
        given.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Tokens {
    fn answer(&self, request: &Request) -> String {
        let is_refresh = request.method == "POST";
        let is_known = if is_refresh {
            values(&request.body, "grant_type") == ["refresh_token"]
                && values(&request.body, "refresh_token") == [REFRESH_TOKEN]
        } else {
            request.header("authorization") == Some(&self.authorization)
        };
        let Some((scope, repository)) = asked_scope(request).filter(|_| is_known) else {
            return head("401 Unauthorized", "");
        };
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let end = SystemTime::now() + LIFETIME;
        let token = match self.signer.sign(&repository, end) {
            Ok(token) => token,
            Err(_) => return head("500 No Token", ""),
        };
        given.scopes.push(scope);
        given.tokens.push(token.clone());
        let member = if is_refresh { "access_token" } else { "token" };
        ok(&json!({member: token, "expires_in": LIFETIME.as_secs()}).to_string())
    }
}

/// The one scope of a request to this server, at whatever path, and the repository in it: to pull
/// from one repository and nothing else. Both are empty where none is asked for, as in a login.
fn asked_scope(request: &Request) -> Option<(String, String)> {
    let query = request.target.split_once('?')?.1;
    let form = format!("{query}&{}", request.body);
    let (services, scopes) = (values(&form, "service"), values(&form, "scope"));
    let (service, scope) = match (&services[..], &scopes[..]) {
        ([service], []) => return (service == SERVICE).then(Default::default),
        ([service], [scope]) => (service, scope),
        _ => return None,
    };
    let repository = scope.strip_prefix("repository:")?.strip_suffix(":pull")?;
    (service == SERVICE).then(|| (scope.clone(), repository.to_owned()))
}

/// The values of a name in a form.
fn values(form: &str, name: &str) -> Vec<String> {
    let form = form.replace("%3A", ":").replace("%2F", "/");
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    let values = pairs.filter(|(key, _)| *key == name);
    values.map(|(_, value)| value.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_scope_is_asked_for() {
        let asked = |query: &str| asked_scope(&Request::new("GET", &format!("/token?{query}")));
        assert_eq!(
            asked("service=registry.test&scope=repository%3Ateam%2Fapp%3Apull"),
            Some(("repository:team/app:pull".to_owned(), "team/app".to_owned()))
        );
        assert_eq!(asked("service=registry.test"), Some(Default::default()));
        for query in [
            "service=other",
            "service=other&scope=repository:team/app:pull",
            "service=registry.test&scope=repository:team/app:pull,push",
            "service=registry.test&scope=repository:a:pull&scope=repository:b:pull",
        ] {
            assert_eq!(asked(query), None, "{query}");
        }
    }
}
