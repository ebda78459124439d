//! The rules for a user name, a password and a token, from whatever file they come.
//!
//! A user name and a token become part of a header or a form as they are. A password is carried in
//! base64, so that it may be a file: the key of a service account that Google's registries take as
//! the password of `_json_key` has a dozen lines.

use crate::Rule;
use crate::limits::MAX_CREDENTIAL_BYTES;

/// Checks a user name; it may be empty.
///
/// # Errors
///
/// The rule that it breaks.
pub fn check_username(text: &str) -> Result<(), Rule> {
    check_text(text)?;
    match text.contains(':') {
        true => Err(Rule::ColonInUsername),
        false => Ok(()),
    }
}

/// Checks a password; it may be empty. What reads a file cuts off a line end before, see
/// [`without_line_end`]: where one is left, nobody knows whether it is part of the password.
///
/// # Errors
///
/// The rule that it breaks.
pub fn check_password(text: &str) -> Result<(), Rule> {
    check_length(text)?;
    let is_refused = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    if text.contains(is_refused) {
        return Err(Rule::ControlCharacter);
    }
    match without_line_end(text.as_bytes()).len() < text.len() {
        true => Err(Rule::LineEndOfPassword),
        false => Ok(()),
    }
}

/// Checks a token that is sent as it is.
///
/// # Errors
///
/// The rule that it breaks.
pub fn check_token(text: &str) -> Result<(), Rule> {
    check_text(text)?;
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(Rule::TokenCharacter),
    }
}

/// Checks what becomes part of a header or a form.
///
/// # Errors
///
/// The rule that it breaks.
pub fn check_text(text: &str) -> Result<(), Rule> {
    check_length(text)?;
    match text.contains(char::is_control) {
        true => Err(Rule::ControlCharacter),
        false => Ok(()),
    }
}

fn check_length(text: &str) -> Result<(), Rule> {
    match text.len() > MAX_CREDENTIAL_BYTES {
        true => Err(Rule::CredentialTooLong),
        false => Ok(()),
    }
}

/// A password without the one line end that an editor or `echo` leaves behind it. A password of
/// several lines is a file, and stays as it is.
#[must_use]
pub fn without_line_end(password: &[u8]) -> &[u8] {
    let line = password.strip_suffix(b"\n").unwrap_or(password);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.iter().any(|byte| b"\r\n".contains(byte)) {
        true => password,
        false => line,
    }
}

/// Whether a text begins as a sealed secret of CoCo does. It is none here; sent as it is, it would
/// be a password that nobody has.
#[must_use]
pub fn looks_sealed(text: &str) -> bool {
    text.starts_with("sealed.")
}
