//! Which registries the document of a sandbox is for: the lists of the settings, of the pod's
//! namespace and of the pod itself, of which only that counts which stands in all.

use std::fmt;

use puller_config::{InvalidList, OnlyRegistries};

use crate::choice::{self, ChoiceError};
use crate::namespace::Namespace;
use crate::sandbox_spec::{Pod, REGISTRIES_ANNOTATION};
use crate::settings::Settings;

/// Registries beyond which a sandbox gets no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Only {
    /// What stands in every list.
    pub registries: OnlyRegistries,
    /// Who wrote a list, at least one.
    pub by: Vec<ListedBy>,
}

/// Who wrote a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedBy {
    /// The administrator, for every sandbox.
    Settings,
    /// The administrator, for the sandboxes of this namespace.
    Namespace(Namespace),
    /// The pod's author.
    Pod,
}

impl ListedBy {
    /// The key of the settings, or the annotation.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Settings => "only-registries".to_owned(),
            Self::Namespace(name) => format!("namespaces.{name}.only-registries"),
            Self::Pod => REGISTRIES_ANNOTATION.to_owned(),
        }
    }
}

/// As a phrase.
impl fmt::Display for ListedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => write!(f, "the pod's annotation {}", self.key()),
            Self::Settings | Self::Namespace(_) => write!(f, "{} of the settings", self.key()),
        }
    }
}

/// Why it is not known which registries the document of a sandbox is for, as a fragment that fits
/// after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnlyError {
    /// What the pod's annotation says is no list.
    #[error("use the annotation {REGISTRIES_ANNOTATION}: {0}")]
    Annotation(#[from] InvalidList),
    /// The settings have a list for some namespace, and it may be this one.
    #[error(transparent)]
    Namespace(#[from] ChoiceError),
}

impl OnlyError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Annotation(_) => {
                "write HOST or HOST/PREFIX, with commas or spaces between several, at most 32; \
                without the annotation the pod gets what the node has for it"
            }
            Self::Namespace(error) => error.remedy(),
        }
    }
}

impl Only {
    /// The lists for a `pod`; `None` where nobody wrote one.
    ///
    /// # Errors
    ///
    /// [`OnlyError`].
    pub fn of(settings: &Settings, pod: &Pod) -> Result<Option<Self>, OnlyError> {
        let only = match settings.namespaces.is_empty() {
            true => Self::of_node(settings),
            false => Self::of_namespace(settings, &choice::namespace(settings, pod)?),
        };
        Ok(Self::and(only, Self::of_pod(pod)?, ListedBy::Pod))
    }

    /// The lists for the sandboxes of a namespace, whatever their pods.
    #[must_use]
    pub fn of_namespace(settings: &Settings, namespace: &Namespace) -> Option<Self> {
        let found = settings.namespaces.get(namespace);
        let list = found.and_then(|one| one.only_registries.clone());
        let by = ListedBy::Namespace(namespace.clone());
        Self::and(Self::of_node(settings), list, by)
    }

    /// The list for every sandbox of the node, whatever its pod.
    #[must_use]
    pub fn of_node(settings: &Settings) -> Option<Self> {
        Self::and(None, settings.only_registries.clone(), ListedBy::Settings)
    }

    /// Whether the administrator wrote `registries`, for every sandbox or for those of a namespace;
    /// else a pod's author had a part in it.
    #[must_use]
    pub fn is_of_settings(settings: &Settings, registries: &OnlyRegistries) -> bool {
        let of_namespaces = settings.namespaces.keys();
        let of_namespaces = of_namespaces.map(|namespace| Self::of_namespace(settings, namespace));
        let mut all = of_namespaces.chain([Self::of_node(settings)]).flatten();
        all.any(|only| only.registries == *registries)
    }

    /// The list of the pod itself.
    ///
    /// # Errors
    ///
    /// [`OnlyError::Annotation`].
    pub fn of_pod(pod: &Pod) -> Result<Option<OnlyRegistries>, OnlyError> {
        let list = pod.registries.as_deref().map(OnlyRegistries::parse);
        Ok(list.transpose()?)
    }

    fn and(only: Option<Self>, list: Option<OnlyRegistries>, by: ListedBy) -> Option<Self> {
        let Some(list) = list else {
            return only;
        };
        Some(match only {
            None => Self { registries: list, by: vec![by] },
            Some(mut only) => {
                only.registries = only.registries.and(&list);
                only.by.push(by);
                only
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Engine;
    use crate::sandbox_spec::parse_pod;
    use crate::settings::NamespaceSettings;

    fn team(name: &str) -> Namespace {
        Namespace::parse(name).unwrap()
    }

    /// What containerd writes for a pod of this namespace.
    fn pod_of(namespace: &str) -> Pod {
        let spec = format!(
            r#"{{"annotations":{{"io.kubernetes.cri.container-type":"sandbox",
            "io.kubernetes.cri.sandbox-namespace":"{namespace}"}}}}"#
        );
        parse_pod(spec.as_bytes()).unwrap()
    }

    fn list(text: &str) -> OnlyRegistries {
        text.split_whitespace().map(|name| OnlyRegistries::item(name).unwrap()).collect()
    }

    #[test]
    fn only_what_stands_in_every_list_counts() {
        let of = |set: Option<&str>, of_team: Option<&str>, pod: Option<&str>| {
            let namespace = |only: &str| NamespaceSettings { only_registries: Some(list(only)) };
            let settings = Settings {
                only_registries: set.map(list),
                namespaces: of_team
                    .map(|list| (team("team-a"), namespace(list)))
                    .into_iter()
                    .collect(),
                engine: Some(Engine::Containerd),
                ..Settings::default()
            };
            let mut of_team_a = pod_of("team-a");
            of_team_a.registries = pod.map(Into::into);
            Only::of(&settings, &of_team_a).unwrap()
        };
        assert_eq!(of(None, None, None), None);
        for (set, team, pod, expected, by) in [
            (Some("r.corp"), None, None, "r.corp", 1),
            (Some("r.corp"), Some("r.corp/team-a"), None, "r.corp/team-a", 2),
            (
                Some("r.corp"),
                Some("r.corp/team-a"),
                Some("r.corp/team-a/app,r.corp/team-b,evil.corp"),
                "r.corp/team-a/app",
                3,
            ),
            // Neither the annotation nor a namespace adds to what the settings say.
            (Some("r.corp/x"), Some("r.corp/y"), Some("r.corp"), "", 3),
            (Some(""), None, Some("r.corp"), "", 2),
            (None, None, Some("r.corp"), "r.corp", 1),
        ] {
            let only = of(set, team, pod).unwrap();
            assert_eq!(only.registries, list(expected), "{set:?} {team:?} {pod:?}");
            assert_eq!(only.by.len(), by);
        }
    }

    #[test]
    fn a_namespace_that_is_not_known_gets_nothing_rather_than_all() {
        let mut settings = Settings {
            namespaces: [(team("team-a"), NamespaceSettings::default())].into(),
            engine: Some(Engine::Containerd),
            ..Settings::default()
        };
        assert_eq!(Only::of(&settings, &pod_of("team-b")).unwrap(), None);
        let unknown = |settings: &Settings, pod: &Pod| {
            matches!(Only::of(settings, pod), Err(OnlyError::Namespace(_)))
        };
        assert!(unknown(&settings, &Pod::default()));
        settings.engine = None;
        assert!(unknown(&settings, &pod_of("team-a")));
        assert_eq!(Only::of_node(&settings), None);
    }
}
