//! The settings as the node installer asks about them, before it points Kata to the wrapper.

use std::path::PathBuf;

use node_installer::rules::{Meaning, Rules, SettingsFile};

use super::files::{self, Files};
use super::{Effective, Settings};

/// The rules of this program's wrapper.
pub const RULES: Rules =
    Rules { check_text: Settings::check_text, read, is_drop_in: files::is_drop_in };

/// What `files` mean to the wrapper. The error is what it would say.
fn read(files: &[SettingsFile<'_>]) -> Result<Meaning, String> {
    let files = Files::given(files);
    let off = Effective::salvage(&files);
    if !off.settings.enabled {
        return Ok(meaning(&off));
    }
    let effective = Effective::of(files).map_err(|error| error.to_string())?;
    let transport = effective.settings.transport;
    if !transport.is_for_wrapper() {
        return Err(format!(
            "{}: transport: the wrapper cannot use {:?}; leave it out, or take \"memory\" or \
            \"file\"",
            effective.origins.of("transport"),
            transport.name()
        ));
    }
    Ok(meaning(&effective))
}

fn meaning(effective: &Effective) -> Meaning {
    let settings = &effective.settings;
    let qemu = &settings.qemu;
    let paths = [&qemu.default].into_iter().chain(qemu.by_machine.values());
    let mut paths: Vec<PathBuf> = paths.cloned().collect();
    paths.dedup();
    Meaning {
        off: (!settings.enabled).then(|| effective.origins.of("enabled").to_string()),
        qemu: paths,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read_texts(texts: &[&str]) -> Result<Meaning, String> {
        let names = ["/s/config.toml", "/s/config.d/a.toml", "/s/config.d/b.toml"];
        let files = texts.iter().zip(names).map(|(text, path)| SettingsFile {
            path: path.into(),
            text: text.as_bytes(),
            metadata: None,
        });
        read(&files.collect::<Vec<_>>())
    }

    #[test]
    fn what_the_wrapper_refuses_is_refused() {
        for (texts, rule) in [
            (&["\ntransport = \"loop\"\n"][..], "/s/config.toml:2: transport: the wrapper cannot"),
            (&["transport = \"vhost-user\"\n"], "cannot use \"vhost-user\""),
            (&["", "documnet = 1\n"], "/s/config.d/a.toml:1: unknown field"),
            (&["", "", "x"], "/s/config.d/b.toml:1: "),
            (
                &[
                    "credential-providers.bin-dir = \"/b\"\n",
                    "credential-providers.registries = [\"a.corp\"]\n",
                ],
                "credential-providers.registries: config is missing",
            ),
        ] {
            let said = read_texts(texts).unwrap_err();
            assert!(said.contains(rule), "{texts:?}: {said}");
        }
        let fine = read_texts(&["transport = \"loop\"\nqemu = \"/q\"\n", "transport = \"file\"\n"]);
        let fine = fine.unwrap();
        assert_eq!((fine.off, fine.qemu), (None, vec!["/q".into()]));
        let table = read_texts(&["[qemu]\ndefault = \"/d\"\npc = \"/p\"\n"]).unwrap();
        assert_eq!(table.qemu, [Path::new("/d"), Path::new("/p")]);
        let off = read_texts(&["qemu = \"/q\"\nx = 1\n", "enabled = false\n"]).unwrap();
        let place = Some("/s/config.d/a.toml:1".to_owned());
        assert_eq!((off.off, off.qemu), (place, vec!["/q".into()]));
    }

    /// What would let a pod choose another namespace's document is refused where it is written.
    #[test]
    fn what_is_by_namespace_is_apart_from_the_rest() {
        const ENGINE: &str = "engine = \"containerd\"\n";
        const BY_NAMESPACE: &str = "document = \"/d/{namespace}.toml\"\n";
        let main = format!("{ENGINE}{BY_NAMESPACE}");
        let load = |more: &str| read_texts(&[&main, more]).map(|_| ());
        let allow = |paths: &[&str]| format!("\nannotation-allow = {paths:?}\n");
        let fallback = |path: &str| format!("namespace-fallback = {path:?}\n");
        for fine in [
            String::new(),
            allow(&["/d/{namespace}"]),
            allow(&["/d/{namespace}", "/d/./{namespace}/"]),
            allow(&["/e", "/e/f", "/d2", "/other/{namespace}"]),
            fallback("refuse"),
            fallback("none"),
            fallback("/d/_other.toml"),
            fallback("/d/.other.toml"),
            fallback("/d/a.tom"),
            fallback("/d/a/a.toml"),
            "without-spec = \"none\"\n".into(),
            "document = \"/x.toml\"\nwithout-spec = \"node\"\n".into(),
        ] {
            assert!(load(&fine).is_ok(), "{fine}: {:?}", load(&fine));
        }
        for (more, place, rule) in [
            (allow(&["/d"]), "a.toml:2", "/d and /d must not contain"),
            (allow(&["/e", "/d/"]), "a.toml:2", "must not contain"),
            (allow(&["/d/shared"]), "a.toml:2", "/d and /d/shared must not"),
            (allow(&["/"]), "a.toml:2", "must not contain"),
            (allow(&["//d/./x"]), "a.toml:2", "must not contain"),
            (allow(&["/{namespace}"]), "a.toml:2", "/d and / must not"),
            (allow(&["/d/x/{namespace}"]), "a.toml:2", "must not contain"),
            (allow(&["/e/{namespace}", "/e"]), "a.toml:2", "/e and /e"),
            (allow(&["/e/{namespace}", "/e/team"]), "a.toml:2", "/e/team"),
            (allow(&["/e/{namespace}", "/e/x-{namespace}"]), "a.toml:2", "/e and /e"),
            (
                fallback("/d/default.toml"),
                "a.toml:1",
                "/d/default.toml is the document of the namespace default",
            ),
            ("namespace-base = \"/d/default.toml\"\n".into(), "a.toml:1", "such as _base.toml"),
            (
                format!("{}{}", fallback("/e/b/x.toml"), allow(&["/e/{namespace}"])),
                "a.toml:1",
                "of the namespace b",
            ),
            (
                "without-spec = \"node\"\n".into(),
                "a.toml:1",
                "without-spec: a sandbox without a spec has no namespace",
            ),
        ] {
            let message = load(&more).unwrap_err();
            assert!(message.contains(place), "{more}: {message}");
            assert!(message.contains(rule), "{more}: {message}");
        }
        for (text, key) in [
            (BY_NAMESPACE, "document"),
            ("annotation-allow = [\"/d/{namespace}\"]\n", "annotation-allow"),
        ] {
            let message = read_texts(&[text]).unwrap_err();
            let rule = format!("{key}: {{namespace}} needs engine = \"containerd\"");
            assert!(message.contains(&rule), "{message}");
        }
    }
}
