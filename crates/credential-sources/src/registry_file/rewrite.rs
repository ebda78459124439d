//! K3s' rules for the names of repositories, which containerd's `hosts.toml` of K3s has too: a
//! regular expression, and what takes the place of each of its matches.
//!
//! Those are taken over that a mirror's `prefix` and `name` say: `^P/(.*)` to `Q/$1`, and for every
//! repository `^(.*)$`, `(.*)` or `^` to `Q/$1` or `Q/`. containerd cleans the path of a request, so
//! slashes around the target count for nothing.

use foreign_text::toml::WrongType;
use registry_config::Mirror;

use super::Reader;
use super::plan::Names;

/// Why a rule is left out.
const INEXPRESSIBLE: &str = "a mirror of the document has other names by a prefix only, as \
    \"^P/(.*)\" to \"Q/$1\" and \"^(.*)$\" to \"Q/$1\" give them";

/// The names by all rules of a file, each with its key, its expression and its target. `None` where
/// one of them cannot be said, which is reported: without it a mirror would be asked for other
/// names.
pub(crate) fn all<'r>(
    rules: impl Iterator<Item = (String, &'r str, Result<&'r str, WrongType>)>,
    reader: &mut Reader<'_, '_>,
) -> Option<Vec<Names>> {
    let mut all = Some(Vec::new());
    for (key, from, to) in rules {
        let found = to.map_err(|wrong| wrong.to_string());
        match found.and_then(|to| names(from, to).ok_or_else(|| INEXPRESSIBLE.to_owned())) {
            Ok(found) => all.iter_mut().for_each(|all| all.push(found.clone())),
            Err(why) => {
                reader.left_out(&key, why);
                all = None;
            }
        }
    }
    all
}

/// The repositories that a rule is for, and their names; `None` where a mirror cannot say it.
fn names(from: &str, to: &str) -> Option<Names> {
    let (is_anchored, pattern) = match from.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, from),
    };
    let pattern = pattern.strip_suffix('$').filter(|_| from != "^$").unwrap_or(pattern);
    let captured = ["(.*)", "(.+)"].iter().find_map(|rest| pattern.strip_suffix(rest));
    let (prefix, to) = match captured {
        Some(prefix) => {
            let groups = ["$1", "${1}"];
            (prefix, groups.iter().find_map(|group| to.strip_suffix(group))?)
        }
        // Only the beginning is replaced.
        None if is_anchored && !from.ends_with('$') => (pattern, to),
        None => return None,
    };
    let is_whole = |text: &str| text.is_empty() || text.ends_with('/');
    if !is_whole(prefix) || !is_whole(to) || !(is_anchored || prefix.is_empty()) {
        return None;
    }
    let prefix = prefix.strip_suffix('/').map(|prefix| prefix.replace("\\.", "\0"));
    if prefix.as_ref().is_some_and(|prefix| prefix.contains('.')) {
        return None;
    }
    let prefix = prefix.map(|prefix| prefix.replace('\0', "."));
    let name = to.trim_matches('/');
    let name = (prefix.is_some() || !name.is_empty()).then(|| name.to_owned());
    // Any other letter of an expression is none of a name.
    Mirror::new("https://host", prefix.as_deref(), name.as_deref(), None).ok()?;
    Some(Names { prefix, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_prefix_and_a_name_or_nothing() {
        for (from, to, prefix, name) in [
            ("^rancher/(.*)", "project/images/$1", Some("rancher"), Some("project/images")),
            ("^a/b/(.+)$", "c/${1}", Some("a/b"), Some("c")),
            ("^a\\.b/(.*)", "$1", Some("a.b"), Some("")),
            ("^a/", "/c/", Some("a"), Some("c")),
            ("^(.*)$", "/group/proxy/$1", None, Some("group/proxy")),
            ("(.*)", "hub/$1", None, Some("hub")),
            ("^", "hub/", None, Some("hub")),
            ("^(.+)", "$1", None, None),
        ] {
            let expected = Names { prefix: prefix.map(Into::into), name: name.map(Into::into) };
            assert_eq!(names(from, to), Some(expected), "{from} {to}");
        }
        for (from, to) in [
            ("cpopen", "local/$1"),
            ("a/(.*)", "b/$1"),
            ("^a(.*)", "b/$1"),
            ("^a/(.*)", "b-$1"),
            ("^a/(.*)", "b"),
            ("^a/(.*)", "b/$2"),
            ("^a/(.*)", "$1/b"),
            ("^a.b/(.*)", "c/$1"),
            ("^(a|b)/(.*)", "c/$1"),
            ("^A/(.*)", "c/$1"),
            ("^a/(.*)", "C/$1"),
            ("^a/(.*)", "c//d/$1"),
            ("^a$", "b/"),
            ("^$", "b/"),
            ("$", "b/"),
            ("", "b/"),
            ("(", "b/$1"),
            ("^/(.*)", "b/$1"),
        ] {
            assert_eq!(names(from, to), None, "{from} {to}");
        }
    }
}
