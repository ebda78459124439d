//! A list of registries, or of some of their repositories, beyond which nothing is given away.
//!
//! Who writes one needs no trust: a list takes away from what somebody else gives and never adds to
//! it. Of two lists only that counts which stands in both.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::repositories::is_below;
use crate::{InvalidName, RegistryHost, RegistryName};

/// The most registries of a list that a pod has: one for each of its images, and credential
/// providers are asked about each. Free to change.
pub const MAX_LISTED: usize = 32;

/// The longest text of such a list: each name has at most 515 bytes. Free to change.
pub const MAX_LIST_BYTES: usize = 18 << 10;

/// Registries and repositories: names of single hosts, perhaps with the first segments of
/// repositories. A name without a port is that of every port, as in the document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OnlyRegistries(BTreeSet<RegistryName>);

/// Why a text is no such list. Nothing of the text is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidList {
    /// Longer than [`MAX_LIST_BYTES`].
    #[error("it has more than {MAX_LIST_BYTES} bytes")]
    TooLong,
    /// More than [`MAX_LISTED`].
    #[error("it names more than {MAX_LISTED} registries")]
    TooMany,
    /// Nothing in it.
    #[error("it names no registry")]
    Empty,
    /// A name that is none.
    #[error("name {number} of it: {rule}")]
    Item {
        /// Which one, from 1.
        number: usize,
        /// The broken rule.
        rule: InvalidItem,
    },
}

/// Why a text is no name for such a list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidItem {
    /// No name at all.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The name of many hosts.
    #[error("names no single host: write HOST or HOST/PREFIX")]
    ManyHosts,
}

impl OnlyRegistries {
    /// Reads names that commas or white space separate, at least one of them: the list of a pod,
    /// whose author may be anybody.
    ///
    /// # Errors
    ///
    /// [`InvalidList`].
    pub fn parse(text: &str) -> Result<Self, InvalidList> {
        if text.len() > MAX_LIST_BYTES {
            return Err(InvalidList::TooLong);
        }
        let is_between = |character: char| character == ',' || character.is_ascii_whitespace();
        let items = text.split(is_between).filter(|item| !item.is_empty());
        let mut names = BTreeSet::new();
        for (item, number) in items.zip(1..) {
            let name = Self::item(item).map_err(|rule| InvalidList::Item { number, rule })?;
            names.insert(name);
            if names.len() > MAX_LISTED {
                return Err(InvalidList::TooMany);
            }
        }
        match names.is_empty() {
            true => Err(InvalidList::Empty),
            false => Ok(Self(names)),
        }
    }

    /// Reads one name, `HOST` or `HOST/PREFIX`.
    ///
    /// # Errors
    ///
    /// [`InvalidItem`].
    pub fn item(text: &str) -> Result<RegistryName, InvalidItem> {
        let name = RegistryName::parse(text)?;
        match name.is_literal() {
            true => Ok(name),
            false => Err(InvalidItem::ManyHosts),
        }
    }

    /// What stands in both lists.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |other| one.and(other)));
        Self(pairs.flatten().collect())
    }

    /// Whether a repository of a registry is in the list.
    pub fn has(&self, host: &RegistryHost, repository: &str) -> bool {
        let mut prefixes = self.of_host(host).into_iter();
        prefixes.any(|prefix| prefix.is_none_or(|prefix| is_below(repository, prefix)))
    }

    /// Whether something that `name` is for is in the list.
    pub fn touches(&self, name: &RegistryName) -> bool {
        self.0.iter().any(|one| one.and(name).is_some())
    }

    /// What of the registry `host`, on its port, is in the list: each time the first segments of
    /// repositories, or `None` for all of them.
    pub fn of_host(&self, host: &RegistryHost) -> BTreeSet<Option<&str>> {
        let hosts = RegistryName::literal_candidates(host);
        let its = self.0.iter().filter(|name| hosts.contains(&name.of_host()));
        its.map(RegistryName::repositories).collect()
    }

    /// The names, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &RegistryName> {
        self.0.iter()
    }

    /// Whether there is none, so that nothing is given away at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<RegistryName> for OnlyRegistries {
    fn from_iter<I: IntoIterator<Item = RegistryName>>(names: I) -> Self {
        Self(names.into_iter().filter(RegistryName::is_literal).collect())
    }
}

/// As a list of names, in the spelling of their author where there is one.
impl Serialize for OnlyRegistries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(RegistryName::written))
    }
}

impl<'de> Deserialize<'de> for OnlyRegistries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let names = names.iter().map(|name| Self::item(name));
        names.collect::<Result<_, _>>().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> OnlyRegistries {
        OnlyRegistries::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn shown(list: &OnlyRegistries) -> String {
        let names: Vec<_> = list.iter().map(ToString::to_string).collect();
        names.join(" ")
    }

    #[test]
    fn a_list_is_separated_by_commas_or_space() {
        for text in [
            "registry.corp/team-a,docker.io",
            " registry.corp/team-a \n docker.io ",
            "\tregistry.corp./team-a,, index.docker.io:443,docker.io,",
        ] {
            let names = shown(&list(text));
            assert!(names.starts_with("docker.io"), "{names}");
            assert!(names.ends_with("registry.corp/team-a"), "{names}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_without_being_repeated() {
        let many: Vec<_> = (0..=MAX_LISTED).map(|n| format!("r{n}.corp")).collect();
        let long = "r.corp ".repeat(MAX_LIST_BYTES / 7 + 1);
        for (text, rule) in [
            ("", "names no registry"),
            (" ,\n", "names no registry"),
            (&many.join(","), "more than 32 registries"),
            (&long, "more than 18432 bytes"),
            ("r.corp .corp", "name 2 of it: names no single host"),
            (".", "name 1 of it: names no single host"),
            ("r.corp,https://hunter2.corp", "name 2 of it: "),
            ("r.corp/Hunter2", "name 1 of it: "),
            ("r.corp/hunter2:1.2", "name 1 of it: "),
            ("robot:hunter2@r.corp", "name 1 of it: "),
            ("*.hunter2", "name 1 of it: "),
        ] {
            let said = OnlyRegistries::parse(text).unwrap_err().to_string();
            assert!(said.contains(rule), "{text}: {said}");
            assert!(!said.to_lowercase().contains("hunter2"), "{said}");
        }
        // The same name again is no further one.
        list(&"r.corp ".repeat(2 * MAX_LISTED));
        assert_eq!(list(&many[1..].join(",")).len(), MAX_LISTED);
    }

    #[test]
    fn of_two_lists_the_common_part_counts() {
        for (one, other, both) in [
            ("r.corp", "r.corp/team", "r.corp/team"),
            ("r.corp/team", "r.corp/team/app", "r.corp/team/app"),
            ("r.corp/team", "r.corp/team-b", ""),
            ("r.corp/team", "r.corp:5000/team/app", "r.corp:5000/team/app"),
            ("r.corp:5000", "r.corp/team", "r.corp:5000/team"),
            ("r.corp:5000", "r.corp:443", ""),
            ("r.corp", "s.corp", ""),
            ("a.corp b.corp", "b.corp c.corp", "b.corp."),
        ] {
            let (one, other) = (list(one), list(other));
            for found in [one.and(&other), other.and(&one)] {
                assert_eq!(shown(&found), both, "{one:?} {other:?}");
                for image in ["team", "team/app", "team-b"] {
                    for port in ["", ":443", ":5000"] {
                        let host = RegistryHost::parse(&format!("r.corp{port}")).unwrap();
                        let in_both = one.has(&host, image) && other.has(&host, image);
                        assert_eq!(found.has(&host, image), in_both, "{host}/{image}");
                    }
                }
            }
        }
    }
}
