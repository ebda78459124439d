//! Invariant: what is read as a reference or a source is the same when its canonical form is read;
//! of a resource URI, that form is printable ASCII in which no segment leads upwards.
#![cfg_attr(fuzzing, no_main)]

use registry_config::{ResourceSource, ResourceUri};

fuzzing::target!(|text: &str| {
    if let Ok(uri) = ResourceUri::parse(text) {
        let shown = uri.to_string();
        assert_eq!(ResourceUri::parse(&shown).as_ref(), Ok(&uri));
        assert!(shown.starts_with("kbs") && shown.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(
            uri.path().split('/').all(|segment| !segment.is_empty() && !segment.starts_with('.'))
        );
        assert!(uri.plugin() != "resource" || uri.path().split('/').count() == 3);
    }
    if let Ok(source) = ResourceSource::parse(text) {
        assert_eq!(ResourceSource::parse(&source.to_string()), Ok(source));
    }
});
