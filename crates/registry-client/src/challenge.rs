//! What a registry asks for when it answers "401": the `WWW-Authenticate` header (RFC 9110,
//! section 11.6.1).

/// The most bytes of challenges that are read; real ones have a few hundred.
const MAX_CHALLENGE_BYTES: usize = 8192;

/// One way to authenticate that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The scheme, in lower case.
    pub scheme: String,
    /// The parameters, names in lower case, in the order sent.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The value of a parameter; of repeated ones the first.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Reads all challenges of a header, which may hold several, separated by the same commas as their
/// parameters.
///
/// What cannot be read ends the list: the challenges before it are still good.
pub fn parse(header: &[u8]) -> Vec<Challenge> {
    let mut rest = Input(&header[..header.len().min(MAX_CHALLENGE_BYTES)]);
    let mut challenges: Vec<Challenge> = Vec::new();
    loop {
        rest.skip_separators();
        let Some(word) = rest.token() else {
            return challenges;
        };
        rest.skip_spaces();
        if rest.skip_token68() {
            // Credentials of another kind, such as those of "Negotiate": nothing here reads them.
        } else if rest.eat(b'=') && !challenges.is_empty() {
            // A name before "=" is a parameter of the challenge before it.
            rest.skip_spaces();
            let Some(value) = rest.value() else {
                return challenges;
            };
            if let Some(challenge) = challenges.last_mut() {
                challenge.parameters.push((word.to_ascii_lowercase(), value));
            }
        } else {
            challenges
                .push(Challenge { scheme: word.to_ascii_lowercase(), parameters: Vec::new() });
        }
    }
}

/// What is left of a header.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn skip(&mut self, skipped: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !skipped(*byte)).unwrap_or(self.0.len());
        let (before, after) = self.0.split_at(end);
        self.0 = after;
        before
    }

    fn skip_spaces(&mut self) {
        self.skip(|byte| byte == b' ' || byte == b'\t');
    }

    fn skip_separators(&mut self) {
        self.skip(|byte| byte == b' ' || byte == b'\t' || byte == b',');
    }

    /// Skips what is left of a "token68" (RFC 9110, section 11.2), whose "=" stand before a comma
    /// and not before a value.
    fn skip_token68(&mut self) -> bool {
        let end = |byte: &u8| !b"=/".contains(byte);
        let padding = self.0.iter().position(end).unwrap_or(self.0.len());
        let after = self.0[padding..].iter().find(|byte| !b" \t".contains(byte));
        let is_token68 = match (&self.0[..padding], after) {
            ([], _) => false,
            (_, None | Some(b',')) => true,
            _ => self.0[0] == b'/',
        };
        if is_token68 {
            self.skip(|byte| byte != b',');
        }
        is_token68
    }

    fn token(&mut self) -> Option<String> {
        let token =
            self.skip(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        (!token.is_empty()).then(|| String::from_utf8_lossy(token).into_owned())
    }

    /// A token, or a quoted text whose backslashes keep the character after them.
    fn value(&mut self) -> Option<String> {
        if !self.eat(b'"') {
            return self.token();
        }
        let mut value = Vec::new();
        loop {
            let (&byte, after) = self.0.split_first()?;
            self.0 = after;
            match byte {
                b'"' => return String::from_utf8(value).ok(),
                b'\\' => {
                    let (&escaped, after) = self.0.split_first()?;
                    self.0 = after;
                    value.push(escaped);
                }
                byte => value.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(header: &str) -> String {
        let show = |challenge: &Challenge| {
            let parameters =
                challenge.parameters.iter().map(|(name, value)| format!(" {name}<{value}>"));
            format!("{}{}", challenge.scheme, parameters.collect::<String>())
        };
        parse(header.as_bytes()).iter().map(show).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn challenges_are_read() {
        for (header, expected) in [
            ("", ""),
            ("Basic", "basic"),
            ("Basic realm=\"Registry\"", "basic realm<Registry>"),
            ("BASIC Realm=plain", "basic realm<plain>"),
            (
                "Bearer realm=\"https://auth.corp/token\",service=\"registry.corp\",scope=\"repository:team/app:pull,push\"",
                "bearer realm<https://auth.corp/token> service<registry.corp> \
                scope<repository:team/app:pull,push>",
            ),
            ("Bearer realm = \"a\" , service = b", "bearer realm<a> service<b>"),
            (
                "Negotiate, Basic realm=\"x\", Bearer realm=\"y\"",
                "negotiate; basic realm<x>; bearer realm<y>",
            ),
            ("Basic realm=\"a \\\"quoted\\\" word\"", "basic realm<a \"quoted\" word>"),
            (",, Basic ,, realm=\"x\",", "basic realm<x>"),
            ("Basic realm=\"never closed", "basic"),
            ("Basic realm=\"ends in\\", "basic"),
            ("Basic realm=", "basic"),
            ("Negotiate YII+c2VjcmV0/w==, Basic realm=\"x\"", "negotiate; basic realm<x>"),
            ("Negotiate abc=,Bearer realm=y", "negotiate; bearer realm<y>"),
            ("realm=\"without a scheme\"", "realm"),
            ("\u{1}Basic", ""),
        ] {
            assert_eq!(shown(header), expected, "{header}");
        }
    }

    #[test]
    fn an_endless_header_is_cut() {
        let header = format!("Basic {}", "a=b,".repeat(100_000));
        let challenges = parse(header.as_bytes());
        assert_eq!(challenges.len(), 1);
        assert!(challenges[0].parameters.len() <= MAX_CHALLENGE_BYTES / 4);
    }

    proptest! {
        /// No header panics or yields more than it holds.
        #[test]
        fn any_header_is_read(header in proptest::collection::vec(any::<u8>(), 0..200)) {
            let total: usize = parse(&header).iter().map(|c| c.scheme.len() + c.parameters.len()).sum();
            prop_assert!(total <= header.len());
        }

        /// A quoted value comes back as it was.
        #[test]
        fn quoted_values_survive(value in "[ -~]{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let challenges = parse(format!("Bearer realm=\"{quoted}\"").as_bytes());
            prop_assert_eq!(challenges[0].parameter("realm"), Some(value.as_str()));
        }
    }
}
