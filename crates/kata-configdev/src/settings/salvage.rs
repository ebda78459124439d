//! What a settings file says of the off switch and of the way of a refusal, however broken it is.

use foreign_text::position::line_of;
use toml::de::DeTable;

use super::text::{Layer, entries, settings};

/// The keys that are looked for.
const SALVAGED: [&str; 5] = ["enabled", "qemu", "guest-pull", "refuse", "run-root"];

/// The longest line that begins a table; it is read again with each line below it.
const MAX_HEADER_BYTES: usize = 256;

/// Takes [`SALVAGED`] out of `text` and ignores everything else, also what is no TOML: an off
/// switch that a mistake in another line disarms is none, and the mistake has to reach the
/// sandbox's owner.
///
/// Whatever breaks a rule counts as not said. Of a text that is no TOML, each line is read by
/// itself, below the last line that begins a table.
pub fn salvage(text: &[u8]) -> Layer {
    // A byte that is not UTF-8 becomes three others; the lines stay the same.
    let text = String::from_utf8_lossy(text);
    let mut layer = Layer::new();
    if let Ok(table) = DeTable::parse(&text) {
        take(&mut layer, table.get_ref(), |offset| line_of(text.as_bytes(), offset));
        return layer;
    }
    let mut header = "";
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('[') && line.len() <= MAX_HEADER_BYTES {
            header = line;
        }
        let section = match header == line {
            true => line.to_owned(),
            false => format!("{header}\n{line}"),
        };
        if let Ok(table) = DeTable::parse(&section) {
            take(&mut layer, table.get_ref(), |_| index + 1);
        }
    }
    layer
}

fn take(layer: &mut Layer, table: &DeTable<'_>, line: impl Fn(usize) -> usize) {
    for (key, span, value) in entries(table) {
        let top = key.split_once('.').map_or(key.as_str(), |(top, _)| top);
        if SALVAGED.contains(&top) && settings([(&key, &value)]).is_ok() {
            layer.insert(key, (line(span.start), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toml::Value;

    use super::super::effective::Values;
    use super::*;

    #[test]
    fn the_switch_is_found_beside_every_mistake() {
        for before in [
            "",
            "documnet = 7\n",
            "this is no TOML\n",
            "qemu = \n",
            "document = \"/x\n",
            "annotation-allow = [\"a\",\n",
            "enabled = true\nenabled = true\n",
            "\u{0}\n",
        ] {
            for after in ["", "transport = \"usb\"\n", "[qemu\n", "[x]\nenabled = true\n"] {
                let text = format!("{before}enabled = false\n{after}");
                let layer = salvage(text.as_bytes());
                let line = 1 + before.lines().count();
                assert_eq!(layer["enabled"], (line, Value::Boolean(false)), "{text:?}");
            }
        }
        let bytes = salvage(b"# \xff\nenabled = false\n");
        assert_eq!(bytes["enabled"], (2, Value::Boolean(false)));
        for none in ["", "enabled = \"false\"\n", "# enabled = false\n", "x.enabled = false\n"] {
            assert!(salvage(none.as_bytes()).is_empty(), "{none}");
        }
    }

    #[test]
    fn the_real_qemu_is_found_as_well() {
        let all = |text: &str| {
            let mut merged = Values::default();
            merged.put(Path::new(""), salvage(text.as_bytes()));
            let found = merged.0.iter().map(|(key, (path, _))| format!("{key} {path};"));
            found.collect::<String>().replace('"', "")
        };
        for (text, expected) in [
            ("qemu = \"/q\"\n", "qemu.default /q;"),
            ("qemu = \"/q\"\nx\n", "qemu.default /q;"),
            ("qemu = \"q\"\nx\n", ""),
            ("x\nqemu = \"/q\"\n[qemu]\npc = \"/p\"\n", "qemu.default /q;"),
            (
                "x\n[qemu]\ndefault = \"/d\"\nq53 = \"/no\"\npc = \"/p\"\n",
                "qemu.default /d;qemu.pc /p;",
            ),
            ("x\nqemu.default = \"/d\"\nqemu.pc = 7\n", "qemu.default /d;"),
            ("[qemu]\ndefault = \"/d\"\nx = 7\n", "qemu.default /d;"),
            ("[other]\nqemu = \"/no\"\n", ""),
        ] {
            assert_eq!(all(text), expected, "{text:?}");
        }
    }
}
