//! `only-registries` and `[namespaces]`, as one file has them.

use std::collections::BTreeMap;

use puller_config::OnlyRegistries;
use serde::Deserialize;
use toml::Spanned;

use super::at_line::{AtLine, Broken, Lines};
use crate::namespace::Namespace;

/// The most names of one list. Free to change; each is compared with each of the others.
pub const MAX_ONLY: usize = 64;

/// What the settings say about the pods of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSettings {
    /// The registries that its sandboxes' documents are for.
    pub only_registries: Option<OnlyRegistries>,
}

/// A list as it stands.
pub(super) type RawOnly = Spanned<Vec<Spanned<String>>>;

/// The table as it stands.
pub(super) type RawNamespaces = BTreeMap<Spanned<String>, RawNamespace>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawNamespace {
    only_registries: Option<RawOnly>,
}

/// The lists of a file, by namespace; a later file's list takes the place of an earlier one for the
/// same namespace.
pub type NamespacesLayer = BTreeMap<Namespace, Option<AtLine<OnlyRegistries>>>;

pub(super) fn check_list(
    raw: RawOnly,
    key: &str,
    lines: Lines<'_>,
) -> Result<AtLine<OnlyRegistries>, Broken> {
    let AtLine { line, value } = lines.at(raw);
    if value.len() > MAX_ONLY {
        return Err((line, format!("{key}: more than {MAX_ONLY} registries")));
    }
    let item = |name: Spanned<String>| {
        let AtLine { line, value } = lines.at(name);
        OnlyRegistries::item(&value).map_err(|rule| (line, format!("{key}: {rule}")))
    };
    let value = value.into_iter().map(item).collect::<Result<_, _>>()?;
    Ok(AtLine { line, value })
}

pub(super) fn check_namespaces(
    raw: RawNamespaces,
    lines: Lines<'_>,
) -> Result<NamespacesLayer, Broken> {
    let mut namespaces = NamespacesLayer::new();
    for (name, namespace) in raw {
        let AtLine { line, value: name } = lines.at(name);
        let Ok(namespace_name) = Namespace::parse(&name) else {
            let rule = format!(
                "namespaces: {name:?} is no namespace: lower-case letters, digits and hyphens, at \
                most {}, no hyphen at either end",
                Namespace::MAX_BYTES
            );
            return Err((line, rule));
        };
        let key = format!("namespaces.{name}.only-registries");
        let list = namespace.only_registries;
        let list = list.map(|list| check_list(list, &key, lines)).transpose()?;
        namespaces.insert(namespace_name, list);
    }
    Ok(namespaces)
}

#[cfg(test)]
mod tests {
    use super::super::text::Layer;
    use super::*;

    #[test]
    fn lists_of_the_node_and_of_namespaces() {
        let text = "only-registries = [\"r.corp/Team\"]\n";
        let (line, rule) = Layer::parse(text.as_bytes()).unwrap_err();
        assert_eq!(line, 1);
        assert!(rule.starts_with("only-registries: "), "{rule}");
        let text = "only-registries = []\n[namespaces.team-a]\n\
            only-registries = [\"r.corp/team-a\", \"R.corp./shared\"]\n[namespaces.team-b]\n";
        let layer = Layer::parse(text.as_bytes()).unwrap();
        assert!(layer.only_registries.unwrap().value.is_empty());
        let names: Vec<_> = layer.namespaces.keys().map(Namespace::as_str).collect();
        assert_eq!(names, ["team-a", "team-b"]);
        let team_a = layer.namespaces[&Namespace::parse("team-a").unwrap()].as_ref().unwrap();
        assert_eq!((team_a.line, team_a.value.len()), (3, 2));
        assert!(layer.namespaces[&Namespace::parse("team-b").unwrap()].is_none());
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let many: Vec<_> = (0..=MAX_ONLY).map(|n| format!("\"r{n}.corp\"")).collect();
        let many = format!("\nonly-registries = [{}]", many.join(","));
        let long = format!("\n[namespaces.{}]", "a".repeat(64));
        for (text, rule) in [
            ("\nonly-registries = \"r.corp\"", "expected a sequence"),
            ("\nonly-registries = [\".corp\"]", "names no single host"),
            ("only-registries = [\"a.corp\",\n\"https://b\"]", "only-registries: "),
            (&many, "more than 64 registries"),
            ("\n[namespaces.Team]", "\"Team\" is no namespace"),
            ("\n[namespaces.-a]", "is no namespace"),
            ("\n[namespaces.\"../a\"]", "is no namespace"),
            ("\n[namespaces.\"\"]", "is no namespace"),
            (&long, "is no namespace"),
            ("[namespaces.a]\ndocument = \"/x\"", "unknown field `document`"),
            ("[namespaces.a]\nonly-registries = [\"r.corp:0\"]", "namespaces.a.only-registries: "),
        ] {
            let (line, found) = Layer::parse(text.as_bytes()).unwrap_err();
            assert!(line == 2 && found.contains(rule), "{text}: line {line}: {found}");
        }
    }
}
