//! Repository names on the way to a mirror.

use std::borrow::Cow;

use regex_lite::{Regex, RegexBuilder};
use thiserror::Error;

use crate::Rule;
use crate::limits::{MAX_REPOSITORY_BYTES, MAX_REWRITE_BYTES};
use crate::repositories::check_prefix;

/// The most memory that a pattern may take when it is compiled, in bytes. A pattern of names takes
/// one or two thousand; `(a{99}){99}` would take much more.
const MAX_PATTERN_BYTES: usize = 32 << 10;

/// A rule that gives a repository another name: `from` is a regular expression, and every place in
/// the name that it matches becomes `to`, in which `$1` and `${name}` are what a group has matched.
///
/// That is the meaning of `rewrite` in K3s' `registries.yaml`, and with an anchored beginning the
/// one of a path in a `location` of `registries.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    from: String,
    to: String,
}

/// A name that no repository has: a rewritten one becomes part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("\"rewrite\" makes a name of it that no repository has")]
pub struct NoRepository;

impl Rewrite {
    /// Checks both halves of a rule.
    ///
    /// # Errors
    ///
    /// [`Rule::RewriteTooLong`], [`Rule::RewriteFrom`] for what is no regular expression or too
    /// large, [`Rule::RewriteTo`].
    pub fn parse(from: &str, to: &str) -> Result<Self, Rule> {
        if from.len() > MAX_REWRITE_BYTES || to.len() > MAX_REWRITE_BYTES {
            return Err(Rule::RewriteTooLong);
        }
        compiled(from).ok_or(Rule::RewriteFrom)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./${}".contains(&byte);
        if !to.bytes().all(is_name) {
            return Err(Rule::RewriteTo);
        }
        Ok(Self { from: from.to_owned(), to: to.to_owned() })
    }

    /// The regular expression.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// What stands in the place of each match.
    pub fn to(&self) -> &str {
        &self.to
    }
}

/// The name that a repository has by the first rule that matches it; its own where none does.
///
/// # Errors
///
/// [`NoRepository`].
pub(crate) fn rewritten<'r>(
    rules: &[Rewrite],
    repository: &'r str,
) -> Result<Cow<'r, str>, NoRepository> {
    // Bounds the work and the result: each letter is replaced at most once.
    if repository.len() > MAX_REPOSITORY_BYTES {
        return Err(NoRepository);
    }
    for Rewrite { from, to } in rules {
        let pattern = compiled(from).ok_or(NoRepository)?;
        if pattern.is_match(repository) {
            let name = pattern.replace_all(repository, to.as_str());
            check_prefix(&name).map_err(|_| NoRepository)?;
            return Ok(name);
        }
    }
    Ok(Cow::Borrowed(repository))
}

fn compiled(from: &str) -> Option<Regex> {
    let mut builder = RegexBuilder::new(from);
    builder.size_limit(MAX_PATTERN_BYTES).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[(&str, &str)]) -> Vec<Rewrite> {
        let rule = |(from, to): &(&str, &str)| Rewrite::parse(from, to).unwrap();
        texts.iter().map(rule).collect()
    }

    #[test]
    fn the_first_rule_that_matches_gives_the_name() {
        let k3s = [
            ("^rancher/(.*)", "mirrorproject/rancher-images/$1"),
            ("^(?P<team>[a-z]+)/x$", "${team}-x"),
            ("a", "b"),
            ("^", "all/"),
        ];
        for (repository, expected) in [
            ("rancher/coredns", "mirrorproject/rancher-images/coredns"),
            ("rancher/a/b", "mirrorproject/rancher-images/a/b"),
            ("team/x", "team-x"),
            // Every match, and no second rule.
            ("banana", "bbnbnb"),
            ("other", "all/other"),
        ] {
            let name = rewritten(&rules(&k3s), repository);
            assert_eq!(name.as_deref(), Ok(expected), "{repository}");
        }
        assert_eq!(rewritten(&[], "team/app").as_deref(), Ok("team/app"));
        let other = rules(&[("^x", "y")]);
        assert_eq!(rewritten(&other, "team/app").as_deref(), Ok("team/app"));
    }

    /// The name becomes part of an address, which it must not leave.
    #[test]
    fn what_is_no_repository_is_no_name() {
        for (from, to) in [
            (".*", ""),
            ("^", "../../"),
            ("^", "/"),
            ("$", "/"),
            ("app", "App"),
            ("app", "$9"),
            ("", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        ] {
            let found = rewritten(&rules(&[(from, to)]), "team/app");
            assert_eq!(found, Err(NoRepository), "{from} {to}");
        }
    }

    #[test]
    fn a_rule_is_small() {
        let long = "a".repeat(MAX_REWRITE_BYTES + 1);
        for (from, to, rule) in [
            (long.as_str(), "", Rule::RewriteTooLong),
            ("a", &long, Rule::RewriteTooLong),
            ("(", "", Rule::RewriteFrom),
            ("a{1000}{1000}", "", Rule::RewriteFrom),
            ("(a{99}){99}", "", Rule::RewriteFrom),
            ("(?=a)", "", Rule::RewriteFrom),
            ("a", "b?c", Rule::RewriteTo),
            ("a", "b\nc", Rule::RewriteTo),
            ("a", "b%2f", Rule::RewriteTo),
        ] {
            assert_eq!(Rewrite::parse(from, to), Err(rule), "{from} {to}");
        }
        // Linear in the name, whatever the pattern.
        let slow = rules(&[("^(a*)*(a*)*(a*)*b$", "x")]);
        let name = "a".repeat(MAX_REPOSITORY_BYTES);
        assert_eq!(rewritten(&slow, &name).as_deref(), Ok(name.as_str()));
    }
}
