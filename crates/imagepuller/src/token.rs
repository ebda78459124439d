//! Tokens for one repository, fetched from the token server that a registry names (distribution specification, "Token
//! Authentication").

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use puller_config::Credentials;
use reqwest::StatusCode;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::Serializer;
use zeroize::{Zeroize, Zeroizing};

use crate::body;
use crate::challenge::Challenge;
use crate::error::Error;
use crate::settings::Authority;
use crate::source::host_of;
use crate::transport::{Failure, Request, Transport};

/// The largest answer of a token server; tokens with many claims have a few KiB.
const MAX_TOKEN_ANSWER_BYTES: usize = 64 * 1024;

/// How this program names itself in the OAuth2 exchange.
const CLIENT_ID: &str = "imagepuller";

/// Who asks a token server, and for what.
#[derive(Debug)]
pub struct TokenRequest<'a> {
    /// The registry, as in messages.
    pub host: &'a str,
    /// The repository to read from.
    pub repository: &'a str,
    /// Who the puller is.
    pub credentials: &'a Credentials,
    /// The entry that says so.
    pub authority: &'a Authority,
    /// Whether the registry was asked over plain HTTP.
    pub is_plain: bool,
}

/// What a token server answers: the field names of its two dialects. Borrowed, so that no copy of a token is left behind.
#[derive(Deserialize)]
struct TokenAnswer<'a> {
    #[serde(borrow, default)]
    token: Cow<'a, str>,
    #[serde(borrow, default)]
    access_token: Cow<'a, str>,
}

/// Asks the token server of a Bearer challenge and makes the header of it.
pub async fn fetch(
    transport: &Transport,
    challenge: &Challenge,
    request: &TokenRequest<'_>,
) -> Result<HeaderValue, Error> {
    let rule = |rule: &str| Error::Challenge {
        host: request.host.to_owned(),
        rule: rule.to_owned(),
    };
    let realm = challenge
        .parameter("realm")
        .ok_or_else(|| rule("asks for a token but names no token server"))?;
    let realm = Url::parse(realm)
        .map_err(|_| rule("asks for a token of a server whose address cannot be read"))?;
    transport.check_realm(&realm, request.is_plain)?;
    let scope = format!("repository:{}:pull", request.repository);
    let service = challenge.parameter("service");
    let basic = match request.credentials {
        Credentials::Basic { username, password } => {
            Some(basic_header(username, password.expose())?)
        }
        _ => None,
    };
    let sent = match request.credentials {
        Credentials::IdentityToken { token, .. } => Request {
            url: realm.clone(),
            accept: None,
            authorization: None,
            form: Some(refresh_form(token.expose(), &scope, service)),
        },
        _ => Request {
            url: with_query(realm.clone(), &scope, service),
            accept: None,
            authorization: basic.as_ref(),
            form: None,
        },
    };
    let answer = transport
        .send(sent)
        .await
        .map_err(|Failure { error, .. }| error)?;
    let host = host_of(&answer.url);
    match answer.response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
            let host = format!("the token server {host} of {}", request.host);
            let authority = request.authority.to_string();
            return Err(match request.credentials {
                Credentials::Anonymous => Error::CredentialsMissing { host, authority },
                _ => Error::CredentialsRefused { host, authority },
            });
        }
        status => {
            return Err(Error::Answer {
                host,
                rule: format!("answers {status} instead of a token"),
            });
        }
    }
    let text = Zeroizing::new(body::read(answer, "a token answer", MAX_TOKEN_ANSWER_BYTES).await?);
    // The parser's message may quote what it read, and that is a token.
    let parsed: Option<TokenAnswer<'_>> = serde_json::from_slice(&text).ok();
    let tokens = parsed.map(|parsed| [parsed.token, parsed.access_token]);
    let token = tokens.into_iter().flatten().find(|token| !token.is_empty());
    let token = token.ok_or_else(|| Error::Answer {
        host,
        rule: "answers without a token".to_owned(),
    })?;
    bearer_header(&token)
}

fn with_query(mut realm: Url, scope: &str, service: Option<&str>) -> Url {
    let mut query = realm.query_pairs_mut();
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    query.append_pair("scope", scope);
    drop(query);
    realm
}

fn refresh_form(token: &str, scope: &str, service: Option<&str>) -> Zeroizing<String> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token");
    form.append_pair("client_id", CLIENT_ID);
    form.append_pair("scope", scope);
    if let Some(service) = service {
        form.append_pair("service", service);
    }
    form.append_pair("refresh_token", token);
    Zeroizing::new(form.finish())
}

/// The header of HTTP Basic authentication.
pub fn basic_header(username: &str, password: &str) -> Result<HeaderValue, Error> {
    let joined = Zeroizing::new(format!("{username}:{password}"));
    header(
        "Basic ",
        Zeroizing::new(BASE64_STANDARD.encode(joined.as_bytes())),
    )
}

/// The header that carries a token.
pub fn bearer_header(token: &str) -> Result<HeaderValue, Error> {
    header("Bearer ", Zeroizing::new(token.to_owned()))
}

fn header(scheme: &str, secret: Zeroizing<String>) -> Result<HeaderValue, Error> {
    let mut text = Zeroizing::new(format!("{scheme}{}", *secret));
    let header = HeaderValue::from_str(&text);
    text.zeroize();
    let mut header = header.map_err(|_| {
        Error::Internal("a credential has a character no header can carry".to_owned())
    })?;
    header.set_sensitive(true);
    Ok(header)
}
