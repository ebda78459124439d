//! The text of one settings file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use foreign_text::position::line_of;
use foreign_text::{corrected, one_line};
use registry_config::{MAX_NODE_ERROR_BYTES, NodeError};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::at_line::{AtLine, Broken, Lines};
use super::credential_providers::{ProvidersLayer, RawProviders};
use super::fallback::NamespaceFallback;
use crate::capacity::Capacity;
use crate::disk::Device;
use crate::document_pattern;
use crate::namespace::Engine;
use crate::namespace_path::NamespacePath;
use crate::refusal::Refuse;
use crate::sandbox_spec::WithoutSpec;
use crate::transport::Transport;

/// What one file says, with the line of each value. Keys that it does not have are `None`.
#[derive(Debug, Default)]
pub struct Layer {
    pub enabled: Option<AtLine<bool>>,
    pub qemu: Option<QemuLayer>,
    pub document: Option<AtLine<PathBuf>>,
    pub missing_document: Option<AtLine<NodeError>>,
    pub engine: Option<AtLine<Engine>>,
    pub namespace_fallback: Option<AtLine<NamespaceFallback>>,
    pub annotation_allow: Option<AtLine<Vec<PathBuf>>>,
    pub without_spec: Option<AtLine<WithoutSpec>>,
    pub transport: Option<AtLine<Transport>>,
    pub capacity: Option<AtLine<Capacity>>,
    pub run_root: Option<AtLine<PathBuf>>,
    pub credential_providers: ProvidersLayer,
    pub refuse: Option<AtLine<Refuse>>,
    pub guest_pull: Option<AtLine<bool>>,
}

/// `qemu` as one file has it.
#[derive(Debug)]
pub enum QemuLayer {
    /// One binary for every machine type.
    All(AtLine<PathBuf>),
    /// A table by machine type, `default` among them.
    ByMachine(BTreeMap<String, AtLine<PathBuf>>),
}

/// The file as it stands, before its paths are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawLayer {
    enabled: Option<Spanned<bool>>,
    qemu: Option<Spanned<RawQemu>>,
    document: Option<Spanned<PathBuf>>,
    missing_document: Option<Spanned<String>>,
    engine: Option<Spanned<Engine>>,
    namespace_fallback: Option<Spanned<String>>,
    annotation_allow: Option<Spanned<Vec<Spanned<PathBuf>>>>,
    without_spec: Option<Spanned<WithoutSpec>>,
    transport: Option<Spanned<Transport>>,
    capacity: Option<Spanned<Capacity>>,
    run_root: Option<Spanned<PathBuf>>,
    credential_providers: Option<RawProviders>,
    refuse: Option<Spanned<Refuse>>,
    guest_pull: Option<Spanned<bool>>,
}

enum RawQemu {
    All(PathBuf),
    ByMachine(BTreeMap<Spanned<String>, Spanned<PathBuf>>),
}

/// By hand, because an untagged enum would report neither the place nor the type of a wrong value.
impl<'de> Deserialize<'de> for RawQemu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrTable;

        impl<'de> Visitor<'de> for PathOrTable {
            type Value = RawQemu;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a table of paths by machine type")
            }

            fn visit_str<E>(self, path: &str) -> Result<RawQemu, E> {
                Ok(RawQemu::All(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawQemu, A::Error> {
                let mut table = BTreeMap::new();
                while let Some((machine, path)) = map.next_entry()? {
                    table.insert(machine, path);
                }
                Ok(RawQemu::ByMachine(table))
            }
        }

        deserializer.deserialize_any(PathOrTable)
    }
}

impl Layer {
    /// Parses the text of a settings file.
    pub fn parse(text: &[u8]) -> Result<Self, Broken> {
        let utf8 = str::from_utf8(text)
            .map_err(|error| (line_of(text, error.valid_up_to()), "not UTF-8".into()))?;
        let raw: RawLayer = toml::from_str(utf8).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            (line_of(text, start), said(&error, utf8))
        })?;
        Self::check(raw, Lines(text))
    }

    fn check(raw: RawLayer, lines: Lines<'_>) -> Result<Self, Broken> {
        let qemu = raw.qemu.map(|qemu| QemuLayer::check(qemu, lines));
        let document = raw.document.map(|path| {
            let path = lines.at(path).absolute("document")?;
            document_pattern::check(&path.value)
                .map_err(|rule| (path.line, format!("document: {rule}")))?;
            Ok(path)
        });
        let missing_document = raw.missing_document.map(|text| {
            let AtLine { line, value } = lines.at(text);
            let rule = match value.len() {
                0 => "empty".to_owned(),
                length if length > MAX_NODE_ERROR_BYTES => {
                    format!("longer than {MAX_NODE_ERROR_BYTES} bytes")
                }
                _ => {
                    let value = NodeError::new(&value);
                    return Ok(AtLine { line, value });
                }
            };
            Err((line, format!("missing-document: {rule}")))
        });
        let annotation_allow = raw.annotation_allow.map(|list| {
            let AtLine { line, value } = lines.at(list);
            let plain = |path| {
                let path = lines.at(path).plain("annotation-allow")?;
                NamespacePath::parse(&path.value)
                    .map_err(|rule| (path.line, format!("annotation-allow: {rule}")))?;
                Ok(path.value)
            };
            let value = value.into_iter().map(plain).collect::<Result<_, _>>()?;
            Ok(AtLine { line, value })
        });
        let fallback = raw.namespace_fallback.map(|text| lines.at(text));
        Ok(Self {
            enabled: raw.enabled.map(|enabled| lines.at(enabled)),
            qemu: qemu.transpose()?,
            document: document.transpose()?,
            missing_document: missing_document.transpose()?,
            engine: raw.engine.map(|engine| lines.at(engine)),
            namespace_fallback: fallback.map(NamespaceFallback::parse).transpose()?,
            annotation_allow: annotation_allow.transpose()?,
            without_spec: raw.without_spec.map(|meaning| lines.at(meaning)),
            transport: raw.transport.map(|transport| lines.at(transport)),
            capacity: raw.capacity.map(|capacity| lines.at(capacity)),
            run_root: raw.run_root.map(|path| lines.at(path).plain("run-root")).transpose()?,
            credential_providers: ProvidersLayer::check(raw.credential_providers, lines)?,
            refuse: raw.refuse.map(|refuse| lines.at(refuse)),
            guest_pull: raw.guest_pull.map(|pull| lines.at(pull)),
        })
    }
}

impl QemuLayer {
    fn check(raw: Spanned<RawQemu>, lines: Lines<'_>) -> Result<Self, Broken> {
        let AtLine { line, value } = lines.at(raw);
        let table = match value {
            RawQemu::All(value) => {
                return AtLine { line, value }.absolute("qemu").map(Self::All);
            }
            RawQemu::ByMachine(table) => table,
        };
        let mut by_machine = BTreeMap::new();
        for (machine, path) in table {
            let AtLine { line, value: machine } = lines.at(machine);
            if machine != "default" && !Device::FAMILIES.contains(&machine.as_str()) {
                let known = Device::FAMILIES.join(", ");
                let rule = format!("qemu: {machine:?} is none of default, {known}");
                return Err((line, rule));
            }
            let path = lines.at(path).absolute(&format!("qemu.{machine}"))?;
            by_machine.insert(machine, path);
        }
        Ok(Self::ByMachine(by_machine))
    }
}

/// The parser's words, with the key that was probably meant or that is there twice.
fn said(error: &toml::de::Error, text: &str) -> String {
    let said = corrected(error.message());
    match error.span().and_then(|span| text.get(span)) {
        Some(key) if said == "duplicate key" => format!("{said} {}", one_line(key)),
        _ => said.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The installer looks for settings that got into Kata's configuration by mistake.
    #[test]
    fn the_installer_knows_every_setting() {
        let (_, rule) = Layer::parse(b"x = 1\n").unwrap_err();
        let keys: Vec<&str> = rule.split('`').skip(3).step_by(2).collect();
        assert!(keys.contains(&"document"), "{rule}");
        for key in keys {
            assert!(node_installer::kata::is_wrapper_setting(key), "{key}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let long = format!("\nmissing-document = {:?}\n", "x".repeat(1025));
        let cases: [(&[u8], usize, &str); 38] = [
            (b"\ndocumnet = \"/x\"\n", 2, "unknown field `documnet`; did you mean `document`?"),
            (b"annotation_allow = []\n", 1, "; did you mean `annotation-allow`?"),
            (b"# x\nqemu = 7\n", 2, "expected a path or a table of paths"),
            (b"qemu = [\"/a\"]\n", 1, "expected a path or a table of paths"),
            (b"qemu = \"/a\"\nqemu = \"/b\"\n", 2, "duplicate key qemu"),
            (b"qemu = \"/a\"\n[qemu]\nq35 = \"/b\"\n", 2, "duplicate key qemu"),
            (b"\nqemu = \"qemu-kvm\"\n", 2, "qemu: not an absolute path"),
            (b"[qemu]\n\nq35 = \"qemu\"\n", 3, "qemu.q35: not an absolute path"),
            (b"[qemu]\nq53 = \"/q\"\n", 2, "qemu: \"q53\" is none of default, q35, pc, virt"),
            (b"[qemu]\n\"pc-q35-7.2\" = \"/q\"\n", 2, "is none of default"),
            (b"[qemu]\nq35 = 7\n", 2, "invalid type: integer `7`"),
            (b"document = \"\"\n", 1, "document: not an absolute path"),
            (b"\n\ndocument = \"/x/**/y\"\n", 3, "document: "),
            (b"document = \"/x/[a\"\n", 1, "document: "),
            (
                b"document = \"/{namespace}/x.toml\"\n",
                1,
                "document: not a pattern: {namespace} can stand in its last part only",
            ),
            (
                b"document = \"/x/{namespace}-{namespace}\"\n",
                1,
                "{namespace} can stand there once only",
            ),
            (b"document = \"/x/../{namespace}\"\n", 1, "it must be absolute and without"),
            (b"document = \"/x?/{namespace}\"\n", 1, "it can have no"),
            (
                b"annotation-allow = [\n\"/{namespace}/x\"]\n",
                2,
                "annotation-allow: {namespace} can stand in its last part only",
            ),
            (b"engine = \"docker\"\n", 1, "unknown variant `docker`"),
            (b"\nnamespace-fallback = \"any\"\n", 2, "namespace-fallback: neither"),
            (b"namespace-fallback = \"/x/{namespace}\"\n", 1, "not the path of one document"),
            (b"namespace-fallback = \"/x/*.toml\"\n", 1, "not the path of one document"),
            (b"namespace-fallback = \"/x/../y\"\n", 1, "namespace-fallback: a directory has"),
            (b"missing-document = ''\n", 1, "missing-document: empty"),
            (long.as_bytes(), 2, "longer than 1024 bytes"),
            (
                b"annotation-allow = [\n\"/a\",\n\"/a/../b\"]\n",
                3,
                "annotation-allow: a directory has",
            ),
            (b"without-spec = \"\"\n", 1, "unknown variant ``"),
            (b"transport = \"usb\"\n", 1, "unknown variant `usb`"),
            (b"transport = \"Memory\"\n", 1, "unknown variant"),
            (b"\nrefuse = \"loud\"\n", 2, "unknown variant `loud`"),
            (b"guest-pull = \"yes\"\n", 1, "expected a boolean"),
            (b"\ncapacity = \"64k\"\n", 2, "a capacity is a multiple of 512"),
            (b"capacity = 1000\n", 1, "a capacity is a multiple of 512"),
            (b"capacity = -512\n", 1, "a capacity is a multiple of 512"),
            (b"capacity = true\n", 1, "expected a number of bytes or a text"),
            (b"run-root = \"/run/../etc\"\n", 1, "run-root: a directory has"),
            (b"qemu = \"/a\"\n\xff\n", 2, "not UTF-8"),
        ];
        for (text, line, rule) in cases {
            let (found_line, found_rule) = Layer::parse(text).unwrap_err();
            let text = text.escape_ascii();
            assert_eq!(found_line, line, "{text}: {found_rule}");
            assert!(found_rule.contains(rule), "{text}: {found_rule}");
        }
    }
}
