//! What is taken out of files that have to stay on the node. No I/O.

use toml_edit::DocumentMut;

use crate::HostPath;
use crate::kata::Said;
use crate::kind::WRAPPER;

/// The settings that no document needs: how QEMU starts, and what pods may name. Everything else
/// goes, so that no key names what is removed or says what a missing document means.
const KEPT_SETTINGS: [&str; 9] = [
    "enabled",
    "engine",
    "qemu",
    "annotation-allow",
    "without-spec",
    "transport",
    "run-root",
    "refuse",
    "guest-pull",
];

/// What becomes of a drop-in that somebody changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DropIn {
    /// It does not start the wrapper.
    Harmless,
    /// This is it without the line that starts the wrapper.
    Without(Vec<u8>),
    /// It starts the wrapper, but not by a line of its own.
    Unclear,
}

/// Takes the line out of the drop-in `text` that names a wrapper below one of `prefixes`.
pub(crate) fn without_wrapper(text: &[u8], prefixes: &[HostPath]) -> DropIn {
    let Ok(said) = Said::parse(text) else {
        // Kata reads none of it either.
        return DropIn::Harmless;
    };
    let is_ours = |path: &str| is_ours(path, prefixes);
    let Some((line, _)) = said.qemu_path.filter(|(_, path)| is_ours(path)) else {
        return DropIn::Harmless;
    };
    let lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
    let others = lines.filter(|(index, _)| index + 1 != line);
    let rest: Vec<u8> = others.flat_map(|(_, line)| line).copied().collect();
    // The line may have been a part of something larger.
    match Said::parse(&rest) {
        Ok(said) if said.qemu_path.is_none() => DropIn::Without(rest),
        _ => DropIn::Unclear,
    }
}

fn is_ours(path: &str, prefixes: &[HostPath]) -> bool {
    let Ok(path) = HostPath::parse(path) else {
        return false;
    };
    let (directory, name) = path.split();
    let chain = directory.map(|directory| directory.chain());
    let chain = chain.unwrap_or_default();
    name == WRAPPER && prefixes.iter().any(|prefix| chain.contains(prefix))
}

/// The settings `text` without everything that gives sandboxes something; `None` where it is no
/// TOML. A text that has nothing of it is unchanged.
pub(crate) fn without_document(text: &[u8]) -> Option<Vec<u8>> {
    let mut settings: DocumentMut = str::from_utf8(text).ok()?.parse().ok()?;
    let keys: Vec<String> = settings.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys {
        if !KEPT_SETTINGS.contains(&key.as_str()) {
            settings.remove(&key);
        }
    }
    Some(settings.to_string().into_bytes())
}

/// The settings `text` with `enabled = false`; `None` where it is no TOML.
pub(crate) fn turned_off(text: &[u8]) -> Option<Vec<u8>> {
    let mut settings: DocumentMut = str::from_utf8(text).ok()?.parse().ok()?;
    let said = settings.get("enabled").and_then(toml_edit::Item::as_bool);
    if said == Some(false) {
        return Some(text.to_vec());
    }
    settings.insert("enabled", toml_edit::value(false));
    Some(settings.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_in_loses_one_line_or_stays() {
        let prefixes = [HostPath::parse("/opt/p").unwrap()];
        let path = "path = \"/opt/p/default/bin/kata-configdev-qemu\"";
        let without = |text: &str| DropIn::Without(text.as_bytes().to_vec());
        for (text, expected) in [
            (
                format!("# ours\n[hypervisor.qemu]\n  {path} # x\n# theirs\nmemory = 1\n"),
                without("# ours\n[hypervisor.qemu]\n# theirs\nmemory = 1\n"),
            ),
            (format!("hypervisor.qemu.{path}"), without("")),
            (format!("[hypervisor]\nqemu = {{ {path} }}\n"), without("[hypervisor]\n")),
            (
                "[hypervisor.qemu]\npath = \"\"\"\n/opt/p/x/bin/kata-configdev-qemu\"\"\"\n".into(),
                DropIn::Unclear,
            ),
            ("[hypervisor.qemu]\npath = \"/usr/bin/qemu\"\n".into(), DropIn::Harmless),
            (
                "[hypervisor.qemu]\npath = \"/opt/q/bin/kata-configdev-qemu\"\n".into(),
                DropIn::Harmless,
            ),
            ("# changed\n".into(), DropIn::Harmless),
            (format!("[hypervisor.qemu\n{path}\n"), DropIn::Harmless),
        ] {
            assert_eq!(without_wrapper(text.as_bytes(), &prefixes), expected, "{text}");
        }
    }

    #[test]
    fn settings_keep_what_starts_qemu() {
        let text = "# comment\nqemu = \"/q\" # why\ndocument = \"/d\"\n\
            missing-document = \"x\"\n\
            [credential-providers]\nconfig = \"/c\"\n";
        let kept = without_document(text.as_bytes()).unwrap();
        assert_eq!(kept, b"# comment\nqemu = \"/q\" # why\n");
        assert_eq!(without_document(&kept).unwrap(), kept);
        let table = "[qemu]\ndefault = \"/q\"\n";
        assert_eq!(without_document(table.as_bytes()).unwrap(), table.as_bytes());
        assert_eq!(without_document(b"document = "), None);
        assert_eq!(without_document(b"\xff"), None);
    }

    #[test]
    fn settings_are_turned_off_and_keep_the_rest() {
        let off = |text: &str| {
            let text = turned_off(text.as_bytes()).unwrap();
            assert_eq!(turned_off(&text).unwrap(), text);
            let settings: toml::Table = str::from_utf8(&text).unwrap().parse().unwrap();
            assert_eq!(settings["enabled"].as_bool(), Some(false));
            settings
        };
        assert_eq!(off("").len(), 1);
        assert_eq!(off("enabled = true\n").len(), 1);
        let settings = off("document = \"/d\"\n[qemu]\ndefault = \"/q\"\n");
        assert_eq!(settings["document"].as_str(), Some("/d"));
        assert_eq!(settings["qemu"]["default"].as_str(), Some("/q"));
        assert_eq!(turned_off(b"document = "), None);
    }
}
