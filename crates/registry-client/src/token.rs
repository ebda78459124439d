//! Tokens for one repository, fetched from the token server that a registry names (distribution
//! specification, "Token Authentication").

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pull_route::{Source, host_of};
use registry_config::Credentials;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use url::Url;
use url::form_urlencoded::Serializer;
use zeroize::{Zeroize, Zeroizing};

use self::answer::TokenAnswer;
use crate::attempt::may_pass;
use crate::body;
use crate::challenge::Challenge;
use crate::error::Error;
use crate::failure::Failure;
use crate::retry_after::server_time;
use crate::session::refusal;
use crate::transport::{Answer, Request, Transport};

mod answer;

/// The largest answer of a token server; tokens with many claims have a few KiB.
const MAX_TOKEN_ANSWER_BYTES: usize = 64 * 1024;

/// How many scopes of a registry's own choice are asked for, and how long each may be; there is
/// hardly ever one.
const MAX_OTHER_SCOPES: usize = 4;
const MAX_SCOPE_BYTES: usize = 256;

/// What credential helpers write for the user name of an identity token.
const NO_USERNAME: &str = "<token>";

/// How this program names itself in the OAuth2 exchange.
const CLIENT_ID: &str = "imagepuller";

/// Who asks a token server, and for what.
#[derive(Debug)]
pub struct TokenRequest<'a> {
    /// The registry, as in messages.
    pub host: &'a str,
    /// The repository to read from.
    pub repository: &'a str,
    /// By which entry it is asked.
    pub source: &'a Source,
    /// Who the puller is.
    pub credentials: &'a Credentials,
    /// Whether the registry was asked over plain HTTP.
    pub is_plain: bool,
}

/// A token, as it is sent.
#[derive(Debug)]
pub struct Token {
    /// The header that carries it.
    pub header: HeaderValue,
    /// When it is time for the next one.
    pub renew_after: Duration,
}

/// Asks the token server of a Bearer challenge.
pub async fn fetch(
    transport: &Transport,
    challenge: &Challenge,
    request: &TokenRequest<'_>,
) -> Result<Token, Failure> {
    let rule = |rule: &str| Error::account(format!("{} {rule}", request.host));
    let realm = challenge
        .parameter("realm")
        .ok_or_else(|| rule("asks for a token but names no token server"))?;
    let realm = Url::parse(realm)
        .map_err(|_| rule("asks for a token of a server whose address cannot be read"))?;
    transport.check_realm(&realm, request.is_plain)?;
    let answer = ask(transport, &realm, challenge, request).await?;
    let host = host_of(&answer.url);
    let status = answer.response.status();
    if status != StatusCode::OK {
        return Err(refused(status, &answer, request));
    }
    let now = server_time(answer.response.headers());
    let stall = transport.patience().stall;
    let text = body::read(answer, "a token answer", MAX_TOKEN_ANSWER_BYTES, stall).await?;
    let text = Zeroizing::new(text);
    // The parser's message may quote what it read, and that is a token.
    let parsed: Option<TokenAnswer<'_>> = serde_json::from_slice(&text).ok();
    let good = parsed.as_ref().and_then(|parsed| Some((parsed.token()?, parsed)));
    let rule = |rule: &str| Error::answer(&host, rule);
    let (token, parsed) = good.ok_or_else(|| rule("answers without a token"))?;
    let header =
        bearer_header(token).map_err(|_| rule("answers with a token that no header can carry"))?;
    Ok(Token { header, renew_after: parsed.renew_after(now) })
}

/// Posts the identity token, or gets with name and password. Servers that know no posts take an
/// identity token as a password instead.
async fn ask(
    transport: &Transport,
    realm: &Url,
    challenge: &Challenge,
    request: &TokenRequest<'_>,
) -> Result<Answer, Failure> {
    let scopes = scopes(challenge, request.repository);
    let service = challenge.parameter("service");
    let basic = match request.credentials {
        Credentials::Basic { username, password } => {
            Some(basic_header(username, password.expose())?)
        }
        Credentials::IdentityToken { username, token } => {
            let form = refresh_form(token.expose(), &scopes.join(" "), service);
            let answer =
                transport.send(Request { form: Some(form), ..Request::get(realm.clone()) }).await?;
            let status = answer.response.status();
            if status != StatusCode::NOT_FOUND && status != StatusCode::METHOD_NOT_ALLOWED {
                return Ok(answer);
            }
            let username = username.as_deref().unwrap_or(NO_USERNAME);
            Some(basic_header(username, token.expose())?)
        }
        _ => None,
    };
    transport
        .send(Request {
            authorization: basic.as_ref(),
            ..Request::get(with_query(realm.clone(), &scopes, service))
        })
        .await
}

fn refused(status: StatusCode, answer: &Answer, request: &TokenRequest<'_>) -> Failure {
    let host = host_of(&answer.url);
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
            let host = format!("the token server {host} of {}", request.host);
            Failure::of_account(Error::refused_by(&host, request.source))
        }
        status if may_pass(status) => {
            let what = format!("a token for {}", request.host);
            let meaning = "the token server is busy or out of order";
            let is_anonymous = request.source.accounts.is_empty();
            let error = Error::status_of(&host, status, &what, meaning, is_anonymous);
            refusal(error, status, answer)
        }
        status => Error::answer(&host, &format!("answers {status} instead of a token")).into(),
    }
}

/// Leave to pull from the repository, if there is one, and what else the registry asks for that is
/// about no repository: for Amazon's public registry that is everything.
fn scopes(challenge: &Challenge, repository: &str) -> Vec<String> {
    let own = (!repository.is_empty()).then(|| format!("repository:{repository}:pull"));
    let mut scopes = Vec::from_iter(own);
    let asked = challenge.parameter("scope").unwrap_or_default();
    let others = asked.split_ascii_whitespace().filter(|scope| {
        let is_name = scope.bytes().all(|byte| byte.is_ascii_graphic());
        // A type may have a class in brackets behind it, and a repository with a class is still
        // one.
        let kind = scope.split([':', '(']).next().unwrap_or_default();
        let is_repository = kind.eq_ignore_ascii_case("repository");
        is_name && !is_repository && scope.len() <= MAX_SCOPE_BYTES
    });
    scopes.extend(others.take(MAX_OTHER_SCOPES).map(str::to_owned));
    scopes
}

fn with_query(mut realm: Url, scopes: &[String], service: Option<&str>) -> Url {
    let mut query = realm.query_pairs_mut();
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    for scope in scopes {
        query.append_pair("scope", scope);
    }
    drop(query);
    realm
}

fn refresh_form(token: &str, scope: &str, service: Option<&str>) -> Zeroizing<String> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("client_id", CLIENT_ID);
    if !scope.is_empty() {
        form.append_pair("scope", scope);
    }
    if let Some(service) = service {
        form.append_pair("service", service);
    }
    form.append_pair("refresh_token", token);
    Zeroizing::new(form.finish())
}

/// The header of HTTP Basic authentication.
pub fn basic_header(username: &str, password: &str) -> Result<HeaderValue, Error> {
    let joined = Zeroizing::new(format!("{username}:{password}"));
    header("Basic ", Zeroizing::new(BASE64_STANDARD.encode(joined.as_bytes())))
}

/// The header that carries a token.
pub fn bearer_header(token: &str) -> Result<HeaderValue, Error> {
    header("Bearer ", Zeroizing::new(token.to_owned()))
}

fn header(scheme: &str, secret: Zeroizing<String>) -> Result<HeaderValue, Error> {
    let mut text = Zeroizing::new(format!("{scheme}{}", *secret));
    let header = HeaderValue::from_str(&text);
    text.zeroize();
    let mut header =
        header.map_err(|_| Error::internal("a credential has a character no header can carry"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pulled_repository_is_asked_for() {
        for (asked, expected) in [
            ("", "repository:team/app:pull"),
            ("repository:team/app:pull,push", "repository:team/app:pull"),
            ("repository:other:pull", "repository:team/app:pull"),
            ("repository(plugin):x:push", "repository:team/app:pull"),
            ("Repository:x:push repository", "repository:team/app:pull"),
            ("repositorycatalog:x:*", "repository:team/app:pull repositorycatalog:x:*"),
            ("aws", "repository:team/app:pull aws"),
            ("aws repository:other:pull x y", "repository:team/app:pull aws x y"),
        ] {
            let header = format!("Bearer realm=\"x\",scope=\"{asked}\"");
            let challenge = crate::challenge::parse(header.as_bytes()).remove(0);
            assert_eq!(scopes(&challenge, "team/app").join(" "), expected);
        }
    }
}
