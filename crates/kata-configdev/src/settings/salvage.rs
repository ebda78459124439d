//! What a settings file says of the off switch and of the way of a refusal, however broken it is.

use std::path::{Path, PathBuf};

use foreign_text::position::line_of;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::at_line::AtLine;
use super::text::{Layer, QemuLayer};
use crate::disk::Device;
use crate::refusal::Refuse;

/// The longest line that begins a table; it is read again with each line below it.
const MAX_HEADER_BYTES: usize = 256;

impl Layer {
    /// Takes `enabled`, `qemu`, `guest-pull`, `refuse` and `run-root` out of `text` and ignores
    /// everything else, also what is no TOML: an off switch that a mistake in another line disarms
    /// is none, and the mistake has to reach the sandbox's owner.
    ///
    /// Whatever is not of the right type counts as not said. Of a text that is no TOML, each line
    /// is read by itself, below the last line that begins a table.
    pub fn salvage(text: &[u8]) -> Self {
        // A byte that is not UTF-8 becomes three others; the lines stay the same.
        let text = String::from_utf8_lossy(text);
        let mut layer = Self::default();
        if let Ok(table) = DeTable::parse(&text) {
            layer.take(table.get_ref(), |offset| line_of(text.as_bytes(), offset));
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
                layer.take(table.get_ref(), |_| index + 1);
            }
        }
        layer
    }

    fn take(&mut self, table: &DeTable<'_>, line: impl Fn(usize) -> usize) {
        for (key, value) in table {
            let at = line(value.span().start);
            match (&**key.get_ref(), value.get_ref()) {
                ("enabled", DeValue::Boolean(value)) => {
                    let (line, value) = (at, *value);
                    self.enabled = Some(AtLine { line, value });
                }
                ("qemu", DeValue::String(path)) => {
                    let all = absolute(path).map(|value| AtLine { line: at, value });
                    self.qemu = all.map(QemuLayer::All).or(self.qemu.take());
                }
                ("qemu", DeValue::Table(table)) => self.take_machines(table, &line),
                ("guest-pull", DeValue::Boolean(value)) => {
                    let (line, value) = (at, *value);
                    self.guest_pull = Some(AtLine { line, value });
                }
                ("refuse", DeValue::String(text)) => {
                    let text: StrDeserializer<'_, Error> = (&**text).into_deserializer();
                    let found = Refuse::deserialize(text).ok();
                    let found = found.map(|value| AtLine { line: at, value });
                    self.refuse = found.or(self.refuse.take());
                }
                ("run-root", DeValue::String(path)) => {
                    let (line, value) = (at, PathBuf::from(&**path));
                    let found = AtLine { line, value }.plain("run-root").ok();
                    self.run_root = found.or(self.run_root.take());
                }
                _ => {}
            }
        }
    }

    fn take_machines(&mut self, table: &DeTable<'_>, line: impl Fn(usize) -> usize) {
        let found = table.iter().filter_map(|(machine, path)| {
            let machine = machine.get_ref().to_string();
            let known = machine == "default" || Device::FAMILIES.contains(&machine.as_str());
            let value = absolute(Spanned::get_ref(path).as_str()?).filter(|_| known)?;
            let line = line(path.span().start);
            Some((machine, AtLine { line, value }))
        });
        match &mut self.qemu {
            Some(QemuLayer::ByMachine(paths)) => paths.extend(found),
            Some(QemuLayer::All(_)) => {}
            None => self.qemu = Some(QemuLayer::ByMachine(found.collect())),
        }
    }
}

fn absolute(path: &str) -> Option<PathBuf> {
    Path::new(path).is_absolute().then(|| path.into())
}

#[cfg(test)]
mod tests {
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
                let layer = Layer::salvage(text.as_bytes());
                let found = layer.enabled.map(|found| (found.value, found.line));
                assert_eq!(found, Some((false, 1 + before.lines().count())), "{text:?}");
            }
        }
        let bytes = Layer::salvage(b"# \xff\nenabled = false\n").enabled.unwrap();
        assert_eq!((bytes.value, bytes.line), (false, 2));
        for none in ["", "enabled = \"false\"\n", "# enabled = false\n", "x.enabled = false\n"] {
            assert!(Layer::salvage(none.as_bytes()).enabled.is_none(), "{none}");
        }
    }

    #[test]
    fn the_real_qemu_is_found_as_well() {
        let all = |text: &str| match Layer::salvage(text.as_bytes()).qemu {
            Some(QemuLayer::All(found)) => found.value.display().to_string(),
            Some(QemuLayer::ByMachine(found)) => found
                .into_iter()
                .map(|(machine, found)| format!("{machine} {};", found.value.display()))
                .collect(),
            None => String::new(),
        };
        for (text, expected) in [
            ("qemu = \"/q\"\n", "/q"),
            ("qemu = \"/q\"\nx\n", "/q"),
            ("qemu = \"q\"\nx\n", ""),
            ("x\nqemu = \"/q\"\n[qemu]\npc = \"/p\"\n", "/q"),
            ("x\n[qemu]\ndefault = \"/d\"\nq53 = \"/no\"\npc = \"/p\"\n", "default /d;pc /p;"),
            ("x\nqemu.default = \"/d\"\nqemu.pc = 7\n", "default /d;"),
            ("[qemu]\ndefault = \"/d\"\nx = 7\n", "default /d;"),
            ("[other]\nqemu = \"/no\"\n", ""),
        ] {
            assert_eq!(all(text), expected, "{text:?}");
        }
    }
}
