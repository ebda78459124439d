//! `[disks]`, as one file has it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;

use super::at_line::{AtLine, Broken, Lines};
use crate::further_disk::{FurtherDisk, FurtherMagic};

/// The disks of a file; a later file's disk takes the place of an earlier one with the same magic.
pub type DisksLayer = BTreeMap<FurtherMagic, AtLine<FurtherDisk>>;

/// The table as it stands.
pub(super) type RawDisks = BTreeMap<Spanned<String>, Spanned<RawDisk>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawDisk {
    source: Spanned<PathBuf>,
    serial: Option<String>,
    max_bytes: Option<usize>,
}

pub(super) fn check(raw: RawDisks, lines: Lines<'_>) -> Result<DisksLayer, Broken> {
    let mut disks = DisksLayer::new();
    for (name, disk) in raw {
        let AtLine { line, value: name } = lines.at(name);
        let magic: FurtherMagic =
            name.parse().map_err(|rule| (line, format!("disks: {name:?}: {rule}")))?;
        let AtLine { line, value: disk } = lines.at(disk);
        let source = lines.at(disk.source).plain(&format!("disks.{magic}.source"))?;
        let value = FurtherDisk::new(magic, source.value, disk.serial, disk.max_bytes)
            .map_err(|rule| (line, format!("disks.{magic}.{rule}")))?;
        disks.insert(magic, AtLine { line, value });
    }
    Ok(disks)
}

#[cfg(test)]
mod tests {
    use super::super::text::Layer;

    #[test]
    fn a_disk_has_a_magic_of_its_own_a_source_and_limits() {
        let text = b"[disks.timesync]\nsource = \"/etc/ntp.conf\"\n\
            [disks.\"a/b c.d!\"]\nsource = \"/x\"\n";
        assert_eq!(Layer::parse(text).unwrap_err().0, 3, "a space");
        let text = b"[disks]\ntimesync = {source = \"/etc/ntp.conf\"}\n\
            \"a/b/c.d!\" = {source = \"/x\", serial = \"x\", max-bytes = 7}\n";
        let disks = Layer::parse(text).unwrap().disks;
        let disks: Vec<_> = disks
            .values()
            .map(|disk| (disk.value.serial.as_str(), disk.value.max_bytes, disk.line))
            .collect();
        assert_eq!(disks, [("x", 7, 3), ("timesync", 4 << 20, 2)]);

        for (text, rule) in [
            ("initdata = {source = \"/x\"}", "fixed meaning"),
            ("imgpullr = {source = \"/x\"}", "fixed meaning"),
            ("short = {source = \"/x\"}", "eight visible ASCII"),
            ("timesync = {}", "missing field `source`"),
            ("timesync = {source = \"x\"}", "not an absolute path"),
            ("timesync = {source = \"/x/../y\"}", "has \"..\" in it"),
            ("timesync = {source = \"/x\", mode = 1}", "unknown field `mode`"),
            ("timesync = {source = \"/x\", serial = \"\"}", "serial: expected"),
            ("timesync = {source = \"/x\", serial = \"a,b=c\"}", "serial: expected"),
            ("timesync = {source = \"/x\", serial = \"imagepuller\"}", "serial: expected"),
            ("timesync = {source = \"/x\", serial = \"a12345678901234567890\"}", "at most 20"),
            ("\"8imesync\" = {source = \"/x\"}", "serial: expected"),
            ("timesync = {source = \"/x\", max-bytes = 0}", "not between 1 and 4194304"),
            ("timesync = {source = \"/x\", max-bytes = 4194305}", "not between 1 and"),
        ] {
            let text = format!("[disks]\n{text}\n");
            let (line, found) = Layer::parse(text.as_bytes()).unwrap_err();
            assert!(line == 2 && found.contains(rule), "{text}: {line}: {found}");
        }
    }
}
