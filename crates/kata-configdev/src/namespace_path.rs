//! Paths of the settings with a name for each namespace, and how far they must be from others.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::namespace::Namespace;
use crate::sandbox_spec::WithoutSpec;
use crate::settings::{NamespaceFallback, Settings};

/// What stands for the name of the pod's namespace.
pub const PLACEHOLDER: &str = "{namespace}";

/// The longest name of a file, as Linux has it.
const MAX_NAME_BYTES: usize = 255;

/// A directory, and in it one name for each namespace. Two namespaces never have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacePath {
    directory: PathBuf,
    prefix: String,
    suffix: String,
}

impl NamespacePath {
    /// Reads an absolute path with [`PLACEHOLDER`] in its last part; `None` where it is in no part.
    ///
    /// # Errors
    ///
    /// The broken rule, as a fragment.
    pub fn parse(path: &Path) -> Result<Option<Self>, &'static str> {
        let Some(text) = path.to_str().filter(|text| text.contains(PLACEHOLDER)) else {
            return Ok(None);
        };
        let name = path.file_name().and_then(OsStr::to_str);
        let parts = name.and_then(|name| name.split_once(PLACEHOLDER));
        let (Some((prefix, suffix)), Some(directory)) = (parts, path.parent()) else {
            return Err("{namespace} can stand in its last part only");
        };
        if text.matches(PLACEHOLDER).count() > 1 {
            return Err("{namespace} can stand there once only");
        }
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err("with {namespace} it must be absolute and without \"..\"");
        }
        if prefix.len() + Namespace::MAX_BYTES + suffix.len() > MAX_NAME_BYTES {
            return Err("with the longest name of a namespace its last part is too long");
        }
        Ok(Some(Self { directory: directory.into(), prefix: prefix.into(), suffix: suffix.into() }))
    }

    /// Where the names are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The name for `namespace`.
    #[must_use]
    pub fn name(&self, namespace: &Namespace) -> String {
        format!("{}{namespace}{}", self.prefix, self.suffix)
    }

    /// The path for `namespace`.
    #[must_use]
    pub fn path(&self, namespace: &Namespace) -> PathBuf {
        self.directory.join(self.name(namespace))
    }

    /// The namespace that `name` in the directory is for.
    #[must_use]
    pub fn namespace_of_name(&self, name: &str) -> Option<Namespace> {
        let name = name.strip_prefix(self.prefix.as_str())?;
        Namespace::parse(name.strip_suffix(self.suffix.as_str())?).ok()
    }

    /// The namespace that `path` is for.
    #[must_use]
    pub fn namespace_of(&self, path: &Path) -> Option<Namespace> {
        let name = path.file_name()?.to_str()?;
        let is_here = path.parent() == Some(&self.directory);
        is_here.then(|| self.namespace_of_name(name)).flatten()
    }
}

/// What the settings have by namespace.
#[derive(Debug, Default)]
pub struct NamespacePaths {
    /// The documents.
    pub document: Option<NamespacePath>,
    /// The directories that pods may name documents below.
    pub allowed: Vec<Allowed>,
}

/// One directory of the allow-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// For every pod.
    Shared(PathBuf),
    /// One directory for each namespace.
    ByNamespace(NamespacePath),
}

impl Allowed {
    /// The directory itself, or that of the directories of the namespaces.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match self {
            Self::Shared(directory) => directory,
            Self::ByNamespace(paths) => paths.directory(),
        }
    }
}

impl NamespacePaths {
    /// Those of `settings`. A path that breaks a rule of [`NamespacePath::parse`] counts as one
    /// without the placeholder: reading the settings refuses it, and so it is no file.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let parse = |path: &Path| NamespacePath::parse(path).ok().flatten();
        let allowed = settings.annotation_allow.iter();
        Self {
            document: settings.document.as_deref().and_then(parse),
            allowed: allowed
                .map(|path| match parse(path) {
                    Some(paths) => Allowed::ByNamespace(paths),
                    None => Allowed::Shared(path.clone()),
                })
                .collect(),
        }
    }

    /// The key of the settings that has the placeholder, if any.
    #[must_use]
    pub fn key(&self) -> Option<&'static str> {
        let by_namespace = |allowed: &Allowed| matches!(allowed, Allowed::ByNamespace(_));
        match &self.document {
            Some(_) => Some("document"),
            None if self.allowed.iter().any(by_namespace) => Some("annotation-allow"),
            None => None,
        }
    }

    /// Two directories of which one is in the way of the other: a pod could name what is another
    /// namespace's. Each is looked at as `seen` says that it is; `None` for one that is not there.
    ///
    /// What is by namespace must be apart from every other directory. Only documents may be where
    /// the directories of the namespaces are, because these are no files.
    pub fn overlap(&self, seen: impl Fn(&Path) -> Option<PathBuf>) -> Option<[PathBuf; 2]> {
        let document = self.document.as_ref().map(|paths| (None, paths.directory()));
        let allowed = self.allowed.iter();
        let allowed = allowed.map(|allowed| (Some(allowed), allowed.directory()));
        let places: Vec<_> = document.into_iter().chain(allowed).collect();
        for (index, (one, directory)) in places.iter().enumerate() {
            for (other, other_directory) in &places[index + 1..] {
                if is_one_rule(*one, *other) {
                    continue;
                }
                let (Some(first), Some(second)) = (seen(directory), seen(other_directory)) else {
                    continue;
                };
                let may_be_equal = one.is_none() && is_by_namespace(*other);
                let overlaps = first.starts_with(&second) || second.starts_with(&first);
                if overlaps && !(may_be_equal && first == second) {
                    return Some([directory.into(), (*other_directory).into()]);
                }
            }
        }
        None
    }

    /// The namespace whose own the document `path` is, by its name.
    #[must_use]
    pub fn owner_of(&self, path: &Path) -> Option<Namespace> {
        let document = self.document.as_ref();
        let own = document.and_then(|paths| paths.namespace_of(path));
        let below = self.allowed.iter().find_map(|allowed| match allowed {
            Allowed::Shared(_) => None,
            Allowed::ByNamespace(paths) => {
                let mut parents = path.ancestors();
                parents.find_map(|parent| paths.namespace_of(parent))
            }
        });
        own.or(below)
    }
}

/// Whether nothing is by namespace in either, or both are the same entry.
fn is_one_rule(one: Option<&Allowed>, other: Option<&Allowed>) -> bool {
    match (one, other) {
        (Some(Allowed::Shared(_)), Some(Allowed::Shared(_))) => true,
        (one, other) => one == other,
    }
}

fn is_by_namespace(allowed: Option<&Allowed>) -> bool {
    matches!(allowed, Some(Allowed::ByNamespace(_)))
}

/// What is wrong with the settings together where something of them is by namespace: the key and
/// the rule.
#[must_use]
pub fn contradiction(settings: &Settings) -> Option<(&'static str, String)> {
    let paths = NamespacePaths::of(settings);
    if paths.document.is_some() && settings.without_spec == Some(WithoutSpec::Node) {
        let rule = "without-spec: a sandbox without a spec has no namespace, and what it gets \
            depends on that; write \"fail\" or \"none\"";
        return Some(("without-spec", rule.into()));
    }
    let key = paths.key()?;
    if settings.engine.is_none() {
        let rule = format!(
            "{key}: {PLACEHOLDER} needs engine = \"containerd\" or engine = \"cri-o\": what \
            starts the containers of this node"
        );
        return Some((key, rule));
    }
    if let Some([one, other]) = paths.overlap(|path| Some(path.into())) {
        let rule = format!("annotation-allow: {}", apart(&one, &other));
        return Some(("annotation-allow", rule));
    }
    let fallback = match &settings.namespace_fallback {
        NamespaceFallback::Document(fallback) => Some(fallback),
        NamespaceFallback::Refuse | NamespaceFallback::None => None,
    };
    let of_all = [
        ("namespace-fallback", fallback, "_fallback.toml"),
        ("namespace-base", settings.namespace_base.as_ref(), "_base.toml"),
    ];
    of_all.into_iter().find_map(|(key, path, name)| {
        let owner = paths.owner_of(path?)?;
        let rule = format!(
            "{key}: {} is the document of the namespace {owner}; give it a name that no namespace \
            can have, such as {name}",
            path?.display()
        );
        Some((key, rule))
    })
}

/// The rule that two directories break.
pub(crate) fn apart(one: &Path, other: &Path) -> String {
    format!(
        "{} and {} must not contain each other, because with {PLACEHOLDER} one of them has what \
        is a single namespace's",
        one.display(),
        other.display()
    )
}
