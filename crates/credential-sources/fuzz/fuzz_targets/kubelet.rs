//! Invariant: any bytes are a configuration, a message, flags or none; what is understood survives
//! being written again, offers are for the registry that was asked about and nobody else, and no
//! error shows a control character.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::kubelet::answer::offers;
use credential_sources::kubelet::config::{MAX_PROVIDERS, Providers};
use credential_sources::kubelet::duration;
use credential_sources::kubelet::flags::PluginFlags;
use credential_sources::kubelet::matching::Pattern;
use credential_sources::kubelet::protocol::{Request, Response, Version};
use registry_config::{Document, RegistryHost};

fn shown(error: &dyn std::fmt::Display) {
    assert!(!error.to_string().contains(char::is_control));
}

fn response(bytes: &[u8]) {
    let response = match Response::parse(bytes, Version::V1) {
        Ok(response) => response,
        Err(error) => return shown(&error),
    };
    let again = Response::parse(&response.to_bytes(Version::V1), Version::V1);
    // What is written may have longer escapes than what was read.
    if let Ok(again) = again {
        assert_eq!(again.auth.len(), response.auth.len());
        assert_eq!(again.cache_key_type, response.cache_key_type);
    }
    for name in ["reg.corp", "docker.io", "192.0.2.1:5000", "[::1]:5000"] {
        let host = RegistryHost::parse(name).expect("a host");
        let (offers, findings) = offers(&host, None, &[("one", &response), ("two", &response)]);
        let below = format!("{name}/");
        for offer in &offers {
            assert!(offer.name == name || offer.name.starts_with(&below));
        }
        findings.iter().for_each(|finding| shown(finding));
        // With whatever was offered the document stays one, and only the registry that was asked
        // about is in it.
        let merged = credential_sources::merge(b"", &offers).expect("room for one entry");
        let mut entries = merged.document.registries.iter();
        assert!(entries.all(|(name, _)| name.host().as_ref() == Some(&host)));
        assert!(Document::parse(&merged.text).is_ok());
    }
}

fn flags(bytes: &[u8]) {
    let mut flags = PluginFlags::default();
    flags.read(&String::from_utf8_lossy(bytes));
    let paths = [flags.config, flags.bin_dir].into_iter().flatten();
    for path in paths {
        assert!(path.starts_with('/') && !path.contains(char::is_control));
    }
}

fuzzing::target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    if *kind == b'f' {
        return flags(rest);
    }
    match kind % 4 {
        0 => {
            let mut providers = Providers::default();
            if let Err(error) = providers.add(rest) {
                shown(&error);
                assert!(providers.list().is_empty());
            }
            assert!(providers.list().len() <= MAX_PROVIDERS);
        }
        1 => response(rest),
        2 => match Request::parse(rest) {
            Ok(request) => drop(request),
            Err(error) => shown(&error),
        },
        _ => {
            let text = String::from_utf8_lossy(rest);
            let _ = duration::parse(&text);
            let (pattern, image) = text.split_once('\n').unwrap_or((&text, "reg.corp/probe"));
            if let (Ok(pattern), Ok(image)) = (Pattern::parse(pattern), Pattern::parse(image)) {
                let _ = pattern.matches(&image);
                // A host without anything special stands for itself.
                let plain = |pattern: &str| {
                    pattern
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b".-:/".contains(&byte))
                };
                if plain(&text) {
                    assert!(pattern.matches(&pattern));
                }
            }
        }
    }
});
