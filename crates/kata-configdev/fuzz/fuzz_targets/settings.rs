//! Invariant: whatever a settings file says, also if it is no TOML, a drop-in behind it turns the
//! wrapper off and names its QEMU; and settings that the wrapper takes mean the same twice.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use kata_configdev::settings::RULES;
use node_installer::rules::SettingsFile;

/// What the files mean: what turns the wrapper off, and its QEMUs.
fn read(texts: &[&[u8]]) -> Option<(Option<String>, Vec<std::path::PathBuf>)> {
    let files = texts.iter().map(|text| SettingsFile {
        path: "/etc/kata-configdev/config.toml".into(),
        text,
        metadata: None,
    });
    let meaning = (RULES.read)(&files.collect::<Vec<_>>()).ok()?;
    Some((meaning.off, meaning.qemu))
}

fuzzing::target!(|bytes: &[u8]| {
    let off = b"qemu = \"/off\"\nenabled = false\n";
    let (off_by, qemu) = read(&[bytes, off]).expect("an off switch always works");
    assert!(off_by.is_some());
    assert_eq!(qemu, [Path::new("/off")]);
    assert_eq!(read(&[bytes]), read(&[bytes, b""]));
});
