//! The files of a VM: the wrapper's settings, the first file system, the disks.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::fixture::{Fixture, source};
use crate::initramfs::Initramfs;
use crate::{Scenario, Scratch, kata};

/// Writes the settings of the wrapper that was built, and the document that they name.
pub(super) fn settings(scenario: &Scenario, scratch: &Scratch) -> Result<PathBuf> {
    let mut settings = format!("qemu = {:?}\n", scenario.qemu);
    if let Some(document) = &scenario.document {
        let path = scratch.write("imagepuller.toml", document)?;
        settings.push_str(&format!("document = \"{}\"\n", path.display()));
    }
    settings.push_str(&format!("annotation-allow = {:?}\n", scenario.annotation_allow));
    settings.push_str(&scenario.settings);
    scratch.write("config.toml", settings)
}

/// The first file system of a guest with a job.
fn initramfs(scenario: &Scenario, fixture: &Fixture) -> Result<Vec<u8>> {
    let mut initramfs = Initramfs::base(fixture)?;
    initramfs.file("job/parameters", scenario.parameters().as_bytes())?;
    match &scenario.job {
        Some(job) => initramfs.file("job/run", job.as_bytes())?,
        None => initramfs.file("job/run", &fs::read(source("guest/job"))?)?,
    }
    for (name, content) in &scenario.files {
        initramfs.file(name, content)?;
    }
    for program in &scenario.programs {
        initramfs.program(*program)?;
    }
    let hosts = format!("127.0.0.1 localhost\n{}", scenario.hosts);
    initramfs.file("etc/hosts", hosts.as_bytes())?;
    initramfs.finish()
}

pub(super) fn prepare(
    scenario: &Scenario,
    scratch: &Scratch,
    fixture: &Fixture,
) -> Result<kata::Sandbox> {
    let initrd = match &scenario.initrd {
        Some(initrd) => initrd.clone(),
        None => scratch.write("initrd.cpio", initramfs(scenario, fixture)?)?,
    };
    let initdata = match &scenario.initdata {
        Some(document) => {
            let image = config_image::encode(config_image::Magic::INITDATA, document.as_bytes())?;
            Some(scratch.write("data.img", image)?)
        }
        None => None,
    };
    let disks = scenario
        .disks
        .iter()
        .enumerate()
        .map(|(number, content)| scratch.write(&format!("disk{number}.img"), content))
        .collect::<Result<_>>()
        .context("failed to write a disk")?;
    Ok(kata::Sandbox {
        id: scenario.id.clone(),
        kernel: fixture.kernel.clone(),
        cpu: scenario.kernel.cpu().to_owned(),
        memory_mib: 512,
        initrd,
        root_image: scratch.write("root.img", vec![0; 1 << 20])?,
        initdata,
        disks,
        network: scenario.network.back_end(),
        kernel_parameters: scenario.kernel_parameters.clone(),
        run: scratch.path().to_owned(),
    })
}
