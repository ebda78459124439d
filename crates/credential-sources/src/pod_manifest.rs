//! The images that Kubernetes manifests of pods name.
//!
//! Pods, and the pod templates of what makes pods. The text is read as `secret_manifest` reads its
//! own, by the same limits.

use serde::Deserialize;
use serde_json::Value;

use crate::or_default;
use crate::secret_manifest::{MAX_OBJECTS, ManifestError, documents};

/// The most images of a text. Free to change.
pub const MAX_IMAGES: usize = 8192;

/// What a text has.
#[derive(Clone, Debug, Default)]
pub struct PodManifests {
    /// The images, in the text's order.
    pub images: Vec<PodImage>,
    /// The kinds of objects that were left out, because they have no pods that are known here.
    pub other_kinds: Vec<String>,
}

/// An image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodImage {
    /// Kind and name of the object and name of the container, for people. It may have any
    /// characters.
    pub place: String,
    /// The image as it is written, which may be no reference.
    pub image: String,
}

/// An object of any kind. What it specifies is looked at where the kind is known.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    kind: Option<String>,
    metadata: Option<Metadata>,
    spec: Option<Value>,
    template: Option<Value>,
    items: Option<Vec<Object>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

/// What holds a pod, at whatever depth its kind has it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    name: Option<String>,
    image: Option<String>,
}

/// Reads the images of a text: YAML with any number of documents, or JSON; single objects and
/// lists. An object without a kind that is known is left out.
///
/// # Errors
///
/// [`ManifestError`]. No value of the text appears in it.
pub fn parse(text: &[u8]) -> Result<PodManifests, ManifestError> {
    let mut found = PodManifests::default();
    let mut left = MAX_OBJECTS;
    for object in documents(text)? {
        collect(object, &mut found, &mut left)?;
    }
    Ok(found)
}

/// The parsers bound the nesting, and so this recursion.
fn collect(
    object: Object,
    found: &mut PodManifests,
    left: &mut usize,
) -> Result<(), ManifestError> {
    if let Some(items) = object.items {
        let mut each = items.into_iter();
        return each.try_for_each(|item| collect(item, found, left));
    }
    *left = left.checked_sub(1).ok_or(ManifestError::TooManyObjects)?;
    let kind = object.kind.unwrap_or_default();
    let spec = object.spec.unwrap_or_default();
    let pod = match kind.as_str() {
        "Pod" => spec,
        "Deployment"
        | "DaemonSet"
        | "StatefulSet"
        | "ReplicaSet"
        | "ReplicationController"
        | "Job" => at(spec, &["template", "spec"]),
        "CronJob" => at(spec, &["jobTemplate", "spec", "template", "spec"]),
        "PodTemplate" => at(object.template.unwrap_or_default(), &["spec"]),
        _ => {
            found.other_kinds.push(kind);
            return Ok(());
        }
    };
    let name = object.metadata.and_then(|it| it.name).unwrap_or_default();
    let pod: Option<Spec> = serde_json::from_value(pod).map_err(|_| ManifestError::Pod)?;
    let pod = pod.unwrap_or_default();
    let containers = [pod.init_containers, pod.containers, pod.ephemeral_containers];
    for container in containers.into_iter().flatten() {
        let Some(image) = container.image.filter(|image| !image.is_empty()) else {
            // The API server, or what fills the manifest in, has one.
            continue;
        };
        if found.images.len() == MAX_IMAGES {
            return Err(ManifestError::TooManyObjects);
        }
        let container = container.name.unwrap_or_default();
        found
            .images
            .push(PodImage { place: format!("{kind} {name}, container {container}"), image });
    }
    Ok(())
}

/// What stands under these keys; nothing where one of them is missing.
fn at(value: Value, path: &[&str]) -> Value {
    let step = |mut value: Value, key: &&str| value.get_mut(*key).map_or(Value::Null, Value::take);
    path.iter().fold(value, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = include_str!("../fuzz/seeds/pod_manifest/all.yaml");

    fn images(text: &str) -> Vec<(String, String)> {
        let found = parse(text.as_bytes()).unwrap();
        let images = found.images.into_iter();
        images.map(|found| (found.place, found.image)).collect()
    }

    #[test]
    fn every_container_of_every_kind_is_found() {
        let expected = [
            ("Pod web, container set-up", "registry.corp/set-up:1"),
            ("Pod web, container app", "registry.corp/app:1.2"),
            ("Pod web, container debug", "busybox"),
            ("Deployment api, container api", "registry.corp/api@sha256:12"),
            ("CronJob night, container job", "registry.corp/job:latest"),
            ("DaemonSet log, container log", "log:1.5"),
            ("PodTemplate form, container form", "registry.corp/form"),
        ];
        let expected = expected.map(|(place, image)| (place.to_owned(), image.to_owned()));
        assert_eq!(images(ALL), expected);
        let others = parse(ALL.as_bytes()).unwrap().other_kinds;
        assert_eq!(others, ["ConfigMap", "Widget", ""]);
        let json = include_str!("../fuzz/seeds/pod_manifest/list.json");
        let expected = [
            ("StatefulSet db, container db", "registry.corp/db:7"),
            ("Job once, container once", "registry.corp/once:1"),
        ];
        let expected = expected.map(|(place, image)| (place.to_owned(), image.to_owned()));
        assert_eq!(images(json), expected);
        assert_eq!(images(""), []);
        assert_eq!(images("---\n---\n"), []);
    }

    #[test]
    fn what_is_no_manifest_is_refused_without_quoting_it() {
        let error = |text: &str| parse(text.as_bytes()).unwrap_err();
        for text in [
            "kind: Pod\nspec: {containers: hunter2}",
            "kind: Pod\nspec: hunter2",
            "kind: Pod\nspec: {containers: [hunter2]}",
            "kind: Pod\nspec: {containers: [{image: {hunter2: 1}}]}",
        ] {
            assert_eq!(error(text), ManifestError::Pod, "{text}");
        }
        for text in ["hunter2", "[hunter2]", "{\"kind\": hunter2", "a: &a [*a]", "kind: [a]"] {
            let error = error(text);
            assert!(matches!(error, ManifestError::Form { .. }), "{text}: {error:?}");
            assert!(!error.to_string().contains("hunter2"));
        }
        let many = "---\nkind: Pod\n".repeat(MAX_OBJECTS + 1);
        assert!(parse(many.as_bytes()).is_err());
        assert!(parse(&[0xff]).is_err());
    }
}
