//! Images on the host's scratch disk, inside the walls of the puller's unit.

use std::fs;
use std::path::Path;

use anyhow::Result;
use end_to_end::{assert_tells, scratch_settings, site};
use vm_harness::{Kernel, Scenario, node};

use crate::systemd::overlay::{Overlay, workspace};

/// After the agent's first pull.
const LOOK: &str = r#"
mark store "$(grep ' /run/imagepuller ' /proc/mounts | tail -n 1)"
mark table "$(dmsetup table imagepuller-scratch | cut -d' ' -f3,4)"
mark layers "$(ls /run/imagepuller | wc -l)"
"#;

#[test]
fn the_scratch_disk_opens_inside_the_unit() -> Result<()> {
    let site = site()?;
    let mut overlay = Overlay::installed()?;
    let drop_in = workspace().join("deploy/guest/optional/scratch.conf");
    overlay.drop_in("imagepuller.service", &fs::read_to_string(drop_in)?)?;
    for tool in ["cryptsetup", "dmsetup", "mkfs.xfs"] {
        let tool = Path::new("/usr/sbin").join(tool);
        let libraries = node::libraries(site.scratch(), &[&tool])?;
        for file in libraries.iter().chain([&tool]) {
            // As in an image: programs and libraries are below /usr.
            let path = file.strip_prefix("/").unwrap_or(file);
            let path = match path.strip_prefix("usr") {
                Ok(_) => path.to_owned(),
                Err(_) => Path::new("usr").join(path),
            };
            overlay.file(&path.to_string_lossy(), 0o755, &fs::read(file)?)?;
        }
    }
    overlay.file("job/again", 0o644, LOOK.as_bytes())?;
    let directory = site.scratch().path();
    let report = overlay.boot(Scenario {
        kernel: Kernel::Backports,
        image: site.image(),
        document: Some(site.document()),
        hosts: site.scenario().hosts,
        settings: scratch_settings(directory, directory, "1G"),
        modules: Some("modules-scratch"),
        kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
        ..Scenario::bare("")
    })?;
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(report.value("mount"), Some("1"), "the agent sees the image");
    let store = report.value("store").unwrap_or_default();
    assert_tells(store, &["/dev/mapper/imagepuller-scratch", "xfs"]);
    let table = report.value("table").unwrap_or_default();
    assert_tells(table, &["crypt capi:authenc(hmac(sha256),xts(aes))"]);
    assert_eq!(report.value("failed"), None, "a unit failed");
    Ok(())
}
