//! Invariant: whatever a sandbox's spec says, a namespace read from it is one plain name, whose
//! document is that of no other namespace, and no two engines read different ones.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use kata_configdev::namespace::Engine;
use kata_configdev::namespace_path::NamespacePath;
use kata_configdev::sandbox_spec::parse_pod;

fuzzing::target!(|bytes: &[u8]| {
    let Ok(pod) = parse_pod(bytes) else { return };
    let [containerd, crio] =
        [Engine::Containerd, Engine::CriO].map(|engine| pod.namespace(engine).ok());
    for namespace in [&containerd, &crio].into_iter().flatten() {
        for pattern in ["/d/{namespace}.toml", "/d/{namespace}", "/d/a-{namespace}"] {
            let paths = NamespacePath::parse(Path::new(pattern)).expect("a valid path");
            let paths = paths.expect("a path by namespace");
            let path = paths.path(namespace);
            assert_eq!(path.parent(), Some(Path::new("/d")));
            assert_eq!(paths.namespace_of(&path).as_ref(), Some(namespace));
        }
    }
    if let (Some(one), Some(other)) = (containerd, crio) {
        assert_eq!(one, other);
    }
});
