//! By the owner's pins.

use std::fs;

use fault_registry::Script;

use super::{Site, check};

#[test]
fn privileged_a_pinned_tag_is_an_image() {
    vm_harness::needs_root!();
    let site = Site::start(Script::new());
    let (name, tag, digest) = (site.name(), format!("{}:1", site.name()), &site.digest);
    let measured = site.directory.path().join("measured.toml");
    let text = format!("[pins]\n\"{tag}\" = \"{digest}\"\n");
    fs::write(&measured, &text).unwrap();
    let measured_by = ["--measured", measured.to_str().unwrap()];
    let tagged = [&measured_by[..], &["--insecure-no-digest"]].concat();
    let other = format!("sha256:{}", "0".repeat(64));
    site.refuse(&format!("{name}:2"), &measured_by, 65, "no digest");
    site.refuse(&format!("{tag}@{other}"), &tagged, 65, "pins localhost:");
    fs::write(&measured, format!("only-pins = true\n{text}")).unwrap();
    site.refuse(&format!("{name}:2"), &tagged, 65, "only-pins = true");
    site.refuse(&format!("{name}@{other}"), &tagged, 65, "only-pins = true");
    assert_eq!(site.registry.requests().len(), 0);
    let output = site.pull(&tag, &tagged);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(!log.contains("registry's word"), "{log}");
    check(&site.output());
}
