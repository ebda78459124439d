//! Invariant: any bytes are at most so many objects, or an error; what is combined of them is JSON
//! that is read as the same entries.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::docker_config::{DockerConfig, MAX_CONFIG_BYTES};
use credential_sources::secret_manifest::{MAX_OBJECTS, parse};
use credential_sources::secretgen::combine;

fuzzing::target!(|bytes: &[u8]| {
    let Ok(objects) = parse(bytes) else {
        return;
    };
    assert!(objects.len() <= MAX_OBJECTS);
    for namespace in ["default", "a"] {
        match combine(&objects, namespace) {
            Ok(combined) if combined.json.len() <= MAX_CONFIG_BYTES => {
                let again = DockerConfig::parse(&combined.json).expect("JSON");
                assert!(combined.secret_names.is_empty() <= again.entries.is_empty());
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
