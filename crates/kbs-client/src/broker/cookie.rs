//! The cookie of a broker's session: one name, sent back only to the broker that set it.
//!
//! Attributes mean nothing here. A path or domain could only keep the cookie from its own broker,
//! and a refusal tells when it has expired.

use reqwest::header::{HeaderMap, HeaderValue, SET_COOKIE};

use crate::error::Fault;

/// Its name.
const NAME: &str = "kbs-session-id";

/// The longest value; brokers send 32 letters.
const MAX_VALUE_BYTES: usize = 1024;

/// The `Cookie` header of a session that an answer begins. Other cookies are ignored (RFC 6265,
/// section 4.1.1).
///
/// # Errors
///
/// [`Fault::Answer`] if there is no such cookie, several different ones, or one with a value that
/// none has.
pub fn session(headers: &HeaderMap) -> Result<HeaderValue, Fault> {
    let mut found: Option<&str> = None;
    for header in headers.get_all(SET_COOKIE) {
        let Some(value) = value(header) else {
            continue;
        };
        if found.is_some_and(|found| found != value) {
            return Err(Fault::Answer { rule: "sets two different cookies for one session" });
        }
        found = Some(value);
    }
    let Some(value) = found else {
        return Err(Fault::Answer { rule: "sets no cookie kbs-session-id, as a key broker does" });
    };
    let is_legal = !value.is_empty()
        && value.len() <= MAX_VALUE_BYTES
        && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte));
    let header = HeaderValue::from_str(&format!("{NAME}={value}"));
    match header {
        Ok(mut header) if is_legal => {
            header.set_sensitive(true);
            Ok(header)
        }
        _ => Err(Fault::Answer { rule: "sets a session's cookie with a value that no cookie has" }),
    }
}

/// The value, if the header is about this cookie.
fn value(header: &HeaderValue) -> Option<&str> {
    // A header that is no text is some other program's.
    let text = header.to_str().ok()?;
    let pair = text.split_once(';').map_or(text, |(pair, _)| pair);
    let (name, value) = pair.split_once('=')?;
    (name.trim() == NAME).then_some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cookies: &[&str]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(SET_COOKIE, HeaderValue::from_str(cookie).unwrap());
        }
        let header = session(&headers).map_err(|fault| fault.to_string())?;
        assert_eq!(format!("{header:?}"), "Sensitive");
        Ok(header.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_the_session_is_sent_back() {
        let expected = Ok("kbs-session-id=0a1b".to_owned());
        for cookies in [
            &["kbs-session-id=0a1b"] as &[&str],
            &["kbs-session-id=0a1b; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/; Secure"],
            &[" kbs-session-id = 0a1b ;HttpOnly"],
            &["other=1", "kbs-session-id=0a1b", "kbs-session-id2=2", "junk"],
            &["kbs-session-id=0a1b", "kbs-session-id=0a1b; Path=/kbs"],
        ] {
            assert_eq!(read(cookies), expected, "{cookies:?}");
        }
    }

    #[test]
    fn what_is_no_session_is_refused() {
        let long = format!("kbs-session-id={}", "a".repeat(MAX_VALUE_BYTES + 1));
        for (cookies, expected) in [
            (&[] as &[&str], "sets no cookie"),
            (&["other=1"], "sets no cookie"),
            (&["KBS-SESSION-ID=1"], "sets no cookie"),
            (&["kbs-session-id"], "sets no cookie"),
            (&["kbs-session-id=a", "kbs-session-id=b"], "two different"),
            (&["kbs-session-id="], "value that no cookie has"),
            (&["kbs-session-id=\"a\""], "value that no cookie has"),
            (&["kbs-session-id=a b"], "value that no cookie has"),
            (&["kbs-session-id=a,b"], "value that no cookie has"),
            (&[&long], "value that no cookie has"),
        ] {
            let error = read(cookies).unwrap_err();
            assert!(error.contains(expected), "{cookies:?}: {error}");
        }
    }
}
