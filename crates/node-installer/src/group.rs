//! The documents of a set besides its own: one for each namespace, and those that the annotation
//! of a pod can name.

use std::collections::BTreeMap;
use std::fs::read_dir;
use std::io;
use std::path::Path;

use credential_sources::printable;
use credential_sources::secretgen::is_namespace;

use crate::Set;
use crate::limits::MAX_DOCUMENTS;
use crate::source::{Source, is_document_name};

/// The directories of groups.
pub(crate) const GROUPS: [&str; 2] = ["namespaces", "documents"];

/// How the keys of a whole secret end, and what they hold.
const DOCUMENT: &str = ".toml";
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// How many keys that mean nothing are named in a message.
const MAX_NAMED: usize = 8;

/// Documents of a set that lie in one directory on the node.
pub(crate) struct Group<'s> {
    /// The directory's name, below that of the set's own document.
    pub(crate) directory: &'static str,
    /// Those that the configuration names.
    named: &'s BTreeMap<String, Source>,
    /// Where a secret is mounted of which each key is a document.
    pub(crate) whole: Option<&'s Path>,
    is_name: fn(&str) -> bool,
    /// What a name must be, for messages.
    rule: &'static str,
}

/// What the documents of a group are made of.
pub(crate) struct Found {
    /// By the name of the document.
    pub(crate) sources: BTreeMap<String, Source>,
    /// Keys of the whole secret that mean nothing, safe to show.
    pub(crate) strange: Vec<String>,
    /// Whether there is to be a whole secret, and it has not come or has no keys.
    pub(crate) is_awaited: bool,
}

impl Set {
    /// The groups of documents.
    pub(crate) fn groups(&self) -> [Group<'_>; 2] {
        [self.namespace_group(), self.annotation_group()]
    }

    /// The documents of namespaces.
    pub(crate) fn namespace_group(&self) -> Group<'_> {
        Group {
            directory: GROUPS[0],
            named: &self.namespaces,
            whole: self.namespaces_secret.as_deref(),
            is_name: is_namespace,
            rule: "not a name that Kubernetes gives a namespace",
        }
    }

    /// The documents for the annotation.
    pub(crate) fn annotation_group(&self) -> Group<'_> {
        Group {
            directory: GROUPS[1],
            named: &self.documents,
            whole: self.documents_secret.as_deref(),
            is_name: is_document_name,
            rule: "not of lower-case letters, digits, \"-\" and \".\"",
        }
    }
}

impl Group<'_> {
    /// Whether the set has such documents at all.
    pub(crate) fn is_used(&self) -> bool {
        !self.named.is_empty() || self.whole.is_some()
    }

    /// What the files of the group belong to, for the list of installed files: a name that no set
    /// can have.
    pub(crate) fn unit(&self, set: &str) -> String {
        format!("{set}/{}", self.directory)
    }

    /// Every secret that the configuration names.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Path> {
        let named = self.named.values().flat_map(Source::secrets);
        named.map(AsRef::as_ref).chain(self.whole)
    }

    /// Refuses what can never work, with the key.
    pub(crate) fn require_consistent(&self) -> Result<(), String> {
        let key = self.directory;
        if self.named.len() > MAX_DOCUMENTS {
            return Err(format!("{key}: more than {MAX_DOCUMENTS}"));
        }
        if self.whole.is_some_and(|path| !path.is_absolute()) {
            return Err(format!("{key}-secret: not an absolute path"));
        }
        for (name, source) in self.named {
            if !(self.is_name)(name) {
                return Err(format!("{key}.{:?}: {}", printable(name), self.rule));
            }
            source.require_consistent().map_err(|rule| format!("{key}.{name:?}.{rule}"))?;
        }
        Ok(())
    }

    /// What each document is made of, by what is mounted now. A document that the configuration
    /// names without a secret of its own has the key of the whole secret.
    ///
    /// # Errors
    ///
    /// The whole secret cannot be listed, or has too many keys.
    pub(crate) fn found(&self, set: &Set) -> io::Result<Found> {
        let mut sources = self.named.clone();
        let mut strange = Vec::new();
        let mut keys = BTreeMap::new();
        let found = self.whole.map(keys_of).transpose()?;
        let is_awaited = found.as_ref().is_some_and(Vec::is_empty);
        for key in found.unwrap_or_default() {
            let ending = [DOCUMENT, DOCKER_CONFIG]
                .into_iter()
                .find_map(|ending| Some((key.strip_suffix(ending)?, ending)));
            match ending.filter(|(name, _)| (self.is_name)(name)) {
                Some((name, ending)) => {
                    keys.insert((name.to_owned(), ending), key.clone());
                    sources.entry(name.to_owned()).or_default();
                }
                None if strange.len() < MAX_NAMED => strange.push(printable(&key)),
                None => {}
            }
        }
        if sources.len() > MAX_DOCUMENTS {
            let rule = format!("more than {MAX_DOCUMENTS} {}", self.directory);
            return Err(io::Error::other(rule));
        }
        for (name, source) in &mut sources {
            source.names.clone_from(&set.secret_names);
            if let Some(whole) = self.whole
                && source.secret.is_none()
            {
                let key = |ending| keys.get(&(name.clone(), ending));
                // A required one waits for its key.
                if key(DOCUMENT).is_some() || (source.required && !source.has_secrets()) {
                    source.secret = Some(whole.to_owned());
                    source.key = Some(format!("{name}{DOCUMENT}"));
                }
                let config = key(DOCKER_CONFIG).map(|key| whole.join(key));
                source.docker_configs.splice(0..0, config);
            }
        }
        sources.retain(|_, source| source.has_secrets());
        Ok(Found { sources, strange, is_awaited })
    }
}

/// The keys of the secret that is mounted at `directory`; none where it is not there.
fn keys_of(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut keys = Vec::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        // What begins with two dots is the kubelet's own.
        if name.starts_with("..") {
            continue;
        }
        if keys.len() == 2 * MAX_DOCUMENTS {
            return Err(io::Error::other(format!("more than {} keys", 2 * MAX_DOCUMENTS)));
        }
        keys.push(name);
    }
    keys.sort();
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::rules::Rules;

    fn set(more: &str) -> Set {
        let text = format!(
            "host = \"/h\"\nprefix = \"/p/q\"\nwrapper = \"/w\"\nengine = \"cri-o\"\n\
             [sets.default]\nsecret = \"/s\"\nhandlers = []\n{more}"
        );
        let mut options = Options::parse(text.as_bytes(), Rules::NONE).unwrap();
        options.sets.remove("default").unwrap()
    }

    #[test]
    fn a_key_of_the_whole_secret_is_a_namespace() {
        let mounted = tempfile::tempdir().unwrap();
        let at = mounted.path();
        for key in [
            "team-a.toml",
            "team-b.dockerconfigjson",
            "team-c.toml",
            "team-c.dockerconfigjson",
            "Team.toml",
            "a.b.toml",
            ".toml",
            "..data",
            "notes",
        ] {
            std::fs::write(at.join(key), "").unwrap();
        }
        let set = set(&format!(
            "namespaces-secret = {at:?}\nnamespaces.team-d.required = true\n\
             namespaces.team-a.secret = \"/own\"\n"
        ));
        let found = set.namespace_group().found(&set).unwrap();
        let names: Vec<&str> = found.sources.keys().map(String::as_str).collect();
        assert_eq!(names, ["team-a", "team-b", "team-c", "team-d"]);
        assert_eq!(found.strange, [".toml", "Team.toml", "a.b.toml", "notes"]);
        let source = |name: &str| &found.sources[name];
        assert_eq!(source("team-a").secret.as_deref(), Some("/own".as_ref()));
        assert_eq!(source("team-b").secret, None);
        let config = at.join("team-b.dockerconfigjson");
        assert_eq!(source("team-b").docker_configs, [config]);
        assert_eq!(source("team-c").docker_configs.len(), 1);
        // It waits for its key.
        assert_eq!(source("team-d").secret.as_deref(), Some(at));
        assert_eq!(source("team-d").key(), "team-d.toml");
        // The names of documents may have dots.
        let set = self::set(&format!("documents-secret = {at:?}\n"));
        let found = set.annotation_group().found(&set).unwrap();
        assert!(found.sources.contains_key("a.b"));
        assert_eq!(found.strange, [".toml", "Team.toml", "notes"]);
    }

    #[test]
    fn a_secret_that_has_not_come_has_no_keys_and_too_many_are_refused() {
        let mounted = tempfile::tempdir().unwrap();
        let at = mounted.path();
        let set = set(&format!("namespaces-secret = {:?}\n", at.join("none")));
        assert!(set.namespace_group().found(&set).unwrap().sources.is_empty());
        for index in 0..=MAX_DOCUMENTS {
            std::fs::write(at.join(format!("n{index}.toml")), "").unwrap();
        }
        let set = self::set(&format!("namespaces-secret = {at:?}\n"));
        let refused = set.namespace_group().found(&set);
        let rule = refused.err().unwrap().to_string();
        assert_eq!(rule, "more than 256 namespaces");
    }
}
