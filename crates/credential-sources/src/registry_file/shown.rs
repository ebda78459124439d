//! Parts of files as messages may show them: short, printable, and without what could be a
//! password.

use url::Url;

use crate::printable as shown;

/// An address, as scheme, host and port; a path or a query may be a secret.
pub(crate) fn shown_address(text: &str) -> String {
    let parsed = Url::parse(text).ok();
    let address = parsed.as_ref().and_then(|url| {
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
    });
    shown(&address.unwrap_or_else(|| {
        let end = text.find(['?', '#']).unwrap_or(text.len());
        text[..end].to_owned()
    }))
}

/// A key below another, or alone.
pub(crate) fn join(path: &str, key: &str) -> String {
    let key = shown(key);
    let key = if key.contains(['.', ' ', '"']) || key.is_empty() {
        format!("\"{key}\"")
    } else {
        key
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_looks_like_a_password_is_shown() {
        for (text, expected) in [
            (
                "https://robot:hunter2@m.corp:5000/hunter2?hunter2",
                "https://m.corp:5000",
            ),
            ("m.corp/path?hunter2", "m.corp/path"),
            ("robot:hunter2@m.corp", "[redacted]@m.corp"),
        ] {
            assert_eq!(shown_address(text), expected);
        }
        assert_eq!(join("configs", "reg.corp"), "configs.\"reg.corp\"");
    }
}
