//! An image that mkosi makes of `deploy/guest/mkosi`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::Result;
use end_to_end::assert_tells;
use vm_harness::fixture::modules_folder;
use vm_harness::{Kernel, Scratch, is_root};

use crate::guest_image::smoke;
use crate::guest_image::stage::{Stage, deploy, programs, run, succeed, workspace};

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    succeed("cp", ["-a".as_ref(), from.as_os_str(), to.as_os_str()]).map(drop)
}

/// Debian's packages come from its mirror, the first time; then they are in `target/fixtures`.
#[test]
fn privileged_an_image_of_mkosi_with_the_shipped_configuration() -> Result<()> {
    if !is_root("owners and device nodes of an image") {
        return Ok(());
    }
    succeed(workspace().join("qemu-fixtures/mkosi"), [""; 0])?;
    let scratch = Scratch::new()?;
    let stage = Stage::with_units(&scratch)?;
    let modules = modules_folder(Kernel::default())?;
    std::os::unix::fs::symlink("usr/lib", stage.0.join("lib"))?;
    let drivers =
        ["virtio_pci", "virtio_blk", "virtio_net", "overlay", "vmw_vsock_virtio_transport"];
    let mut arguments = vec![modules.as_os_str(), stage.0.as_os_str()];
    arguments.extend(drivers.map(OsStr::new));
    succeed(deploy("add-modules"), arguments)?;

    // A checkout in which hack/build --release has been.
    let checkout = scratch.path().join("checkout");
    for folder in ["mkosi", "systemd"] {
        copy(&deploy(folder), &checkout.join("deploy/guest").join(folder))?;
    }
    let built = checkout.join("target/x86_64-unknown-linux-gnu/release");
    for program in ["initdata-processor", "imagepuller", "configdev-smoke"] {
        copy(&programs()?.join(program), &built.join(program))?;
    }
    let folder = checkout.join("deploy/guest/mkosi");
    copy(&stage.0, &folder.join("mkosi.extra"))?;
    let build = |cache: &str| {
        let options: [&OsStr; 7] = [
            "--directory".as_ref(),
            folder.as_os_str(),
            "--workspace-dir".as_ref(),
            scratch.path().as_os_str(),
            cache.as_ref(),
            "--force".as_ref(),
            "build".as_ref(),
        ];
        run(workspace().join("target/fixtures/mkosi/run"), options)
    };
    // The network is for what no earlier run has fetched.
    let (mut code, mut text) = build("--cache-only=always")?;
    if code != Some(0) {
        (code, text) = build("--cache-only=never")?;
    }
    assert_eq!(code, Some(0), "{text}");
    // What mkosi.finalize says.
    assert_tells(&text, &["warning: kernel: its options are not checked"]);
    let (code, text) = smoke(&folder.join("guest.cpio.zst"))?;
    assert_eq!(code, Some(0), "{text}");
    Ok(())
}
