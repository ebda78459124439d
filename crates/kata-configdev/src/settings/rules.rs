//! The settings as the node installer asks about them, before it points Kata to the wrapper.

use std::path::PathBuf;

use node_installer::rules::{Meaning, Rules, SettingsFile};

use super::files::{self, Files};
use super::{Effective, Settings};

/// The rules of this program's wrapper.
pub const RULES: Rules = Rules {
    check_text: Settings::check_text,
    read,
    is_drop_in: files::is_drop_in,
};

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
            (
                &["\ntransport = \"loop\"\n"][..],
                "/s/config.toml:2: transport: the wrapper cannot",
            ),
            (
                &["transport = \"vhost-user\"\n"],
                "cannot use \"vhost-user\"",
            ),
            (
                &["", "documnet = 1\n"],
                "/s/config.d/a.toml:1: unknown field",
            ),
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
        let fine = read_texts(&[
            "transport = \"loop\"\nqemu = \"/q\"\n",
            "transport = \"file\"\n",
        ]);
        let fine = fine.unwrap();
        assert_eq!((fine.off, fine.qemu), (None, vec!["/q".into()]));
        let table = read_texts(&["[qemu]\ndefault = \"/d\"\npc = \"/p\"\n"]).unwrap();
        assert_eq!(table.qemu, [Path::new("/d"), Path::new("/p")]);
        let off = read_texts(&["qemu = \"/q\"\nx = 1\n", "enabled = false\n"]).unwrap();
        let place = Some("/s/config.d/a.toml:1".to_owned());
        assert_eq!((off.off, off.qemu), (place, vec!["/q".into()]));
    }
}
