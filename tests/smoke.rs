//! `configdev-smoke` with the tests' own initramfs, and with each thing taken away from it that can
//! be wrong with an image. One VM after the other: they are many, and none is in a hurry.

mod image;
mod jobs;
mod options;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use end_to_end::assert_tells;
use image::Image;
use test_http::pki::Authority;
use vm_harness::fixture::Fixture;
use vm_harness::{Registry, Scratch, layout, program};

/// The seconds that one guest may take, however busy the machine is.
const TIMEOUT: &str = "240";

/// What Kata's configuration needs for this image.
const PARAMETER: [&str; 2] = ["--append", "agent.guest_components_procs=none"];

/// The exit code, and everything that was printed.
fn smoke(initrd: &[&str], more: &[&str]) -> Result<(i32, String)> {
    let output = Command::new(program("configdev-smoke")?)
        .arg("--kernel")
        .arg(&Fixture::find()?.kernel)
        .args(initrd)
        .args(["--timeout", TIMEOUT])
        .args(more)
        .output()?;
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    println!("{more:?}\n{text}");
    Ok((output.status.code().context("a signal")?, text))
}

/// The same with an image that is made for it.
fn smoke_image(image: &Image, more: &[&str]) -> Result<(i32, String)> {
    let scratch = Scratch::new()?;
    let initrd = image.write(&scratch)?;
    smoke(&["--initrd", &initrd.to_string_lossy()], more)
}

/// The rows that failed.
fn failed(text: &str) -> Vec<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("error: "));
    rows.filter_map(|row| row.split(':').next()).collect()
}

/// The other states are in the jobs of the page (`smoke/jobs.rs`).
#[test]
fn a_guest_of_the_rust_runtime_without_initdata() -> Result<()> {
    let image = Image::good()?.with_policy();
    let more = ["--runtime", "rs", "--initdata", "none", "--expect", "anonymous"];
    let (code, text) = smoke_image(&image, &[&PARAMETER[..], &more].concat())?;
    assert_eq!(code, 0);
    assert_eq!(failed(&text), [""; 0]);
    assert_tells(&text, &["no initdata", "as expected"]);
    Ok(())
}

/// What is taken away, arguments, the rows that fail, words of them, the exit code.
type Row<'a> = (Image, &'a [&'a str], &'a [&'a str], &'a str, i32);

#[test]
fn each_thing_that_can_be_wrong_is_named() -> Result<()> {
    let good = Image::good()?;
    let late = "(sleep 3; initdata-processor --log kmsg) &\ncode=0";
    let processor = "initdata-processor --log kmsg\ncode=$?";
    let no_hub = good.replaced("keep imagepuller hub", ":")?;
    let rows: Vec<Row<'_>> = vec![
        (
            good.without_module("virtio_blk"),
            &PARAMETER,
            &["disks", "policy"],
            "no disk with the magic (initdata)",
            2,
        ),
        (
            good.replaced(processor, late)?,
            &PARAMETER,
            &["processor", "policy"],
            "it did not run before the agent",
            3,
        ),
        (
            good.clone(),
            &[PARAMETER[0], PARAMETER[1], "--initdata", "none"],
            &["policy"],
            "default-policy.rego",
            3,
        ),
        (good.clone(), &[], &["sockets"], "guest_components_procs", 4),
        (
            good.with_program("usr/local/bin/confidential-data-hub"),
            &[],
            &["sockets"],
            "removes the puller's socket and starts a hub of the image's own",
            4,
        ),
        (
            no_hub.replaced("in $puller $hub;", "in $puller;")?,
            &PARAMETER,
            &["sockets"],
            "no connection to /run/confidential-containers/cdh.sock",
            4,
        ),
        (
            good.replaced("mount_once tmpfs /run", ": tmpfs /run")?,
            &PARAMETER,
            &["run"],
            "mounted an empty tmpfs over",
            5,
        ),
        (
            good.replaced("mkdir -p /proc /sys", "date -s 2001-01-01\nmkdir -p /proc /sys")?,
            &PARAMETER,
            &["clock"],
            " s slow",
            5,
        ),
        (
            good.replaced("exec /usr/bin/kata-agent", "exec /usr/bin/other")?,
            &PARAMETER,
            &["boot"],
            "Attempted to kill init",
            1,
        ),
        (
            good.replaced("initdata-processor --log", "false --log")?,
            &PARAMETER,
            &["boot"],
            "so there will be no agent",
            1,
        ),
    ];
    assert_named(rows)
}

/// Kata's agent listens on vsock before anything else, and ends where it cannot. The image was
/// called ready.
#[test]
fn an_image_without_vsock_is_not_ready() -> Result<()> {
    let good = Image::good()?;
    let rows = |module, words| {
        let image = good.without_module(module);
        (image, &PARAMETER[..], &["vsock"][..], words, 2)
    };
    assert_named(vec![
        rows("vsock", "Address family not supported by protocol"),
        rows("vmw_vsock_virtio_transport", "no virtio transport"),
    ])
}

fn assert_named(rows: Vec<Row<'_>>) -> Result<()> {
    let mut wrong = Vec::new();
    for (image, more, names, words, expected) in rows {
        let (code, text) = smoke_image(&image, more)?;
        let found = failed(&text);
        let is_told = names.iter().all(|name| found.contains(name)) && text.contains(words);
        if code != expected || !is_told {
            wrong.push(format!("{words}: {code}, {found:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// A registry that is not the program's own: with its CA in the document, and without.
#[test]
fn an_image_of_the_callers_is_pulled_with_the_callers_document() -> Result<()> {
    let scratch = Scratch::new()?;
    let authority = Authority::new("the caller's CA")?;
    let registry = Registry::start(&scratch, &authority, &["10.0.2.2"], "puller", "pw")?;
    let layout = layout::sample(&scratch.path().join("layout"))?;
    registry.push(&scratch, &layout.path, "team/app")?;
    let host = format!("10.0.2.2:{}", registry.port());
    let image = format!("{host}/team/app@{}", layout.manifest);
    let entry = format!("[registries.\"{host}\"]\nusername = \"puller\"\npassword = \"pw\"\n");
    let roots = format!("ca-certs = \"\"\"\n{}\"\"\"\n", authority.certificate());
    for (document, code, words) in
        [(entry.clone() + &roots, 0, "mounted as overlay"), (entry, 6, "ca-certs")]
    {
        let document = scratch.write("document.toml", document)?;
        let document = document.to_string_lossy();
        let more = ["--document", &document, "--pull", &image];
        let more = [&PARAMETER[..], &more].concat();
        let (ended, text) = smoke_image(&Image::good()?, &more)?;
        assert_eq!(ended, code);
        assert_tells(&text, &[words]);
    }
    Ok(())
}

/// The parameter was added where there was no initdata too, and nobody said so: an image was called
/// ready of which each pod was refused.
#[test]
fn the_parameter_for_unverified_initdata_is_added_only_with_initdata_and_said() -> Result<()> {
    let scratch = Scratch::new()?;
    let path = |name: &str| scratch.path().join(name);
    let script = format!("#!/bin/sh\necho \"$@\" >'{}'\nexit 1\n", path("line").display());
    fs::write(path("qemu"), script)?;
    fs::set_permissions(path("qemu"), Permissions::from_mode(0o755))?;
    let initrd = Image::good()?.write(&scratch)?;
    let qemu = path("qemu").display().to_string();
    let word = "configdev.allow_unverified_initdata=1";
    for (more, times, said) in [
        (&[][..], 1, true),
        (&["--append", word], 1, false),
        (&["--initdata", "none"], 0, false),
        (&["--expect", "refused"], 0, false),
    ] {
        let more = [&["--qemu", &qemu], more].concat();
        let (_, text) = smoke(&["--initrd", &initrd.to_string_lossy()], &more)?;
        let line = fs::read_to_string(path("line"))?;
        assert_eq!(line.matches(word).count(), times, "{more:?}: {line}");
        let row = format!("warning: parameter: {word} was added");
        assert_eq!(text.contains(&row), said, "{more:?}: {text}");
    }
    Ok(())
}

#[test]
fn what_cannot_begin_has_its_own_codes() -> Result<()> {
    let nowhere = ["--initrd", "/nowhere"];
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("smoke.rs");
    let here = here.to_string_lossy();
    for (initrd, more, code, words) in [
        (&nowhere[..], &[][..], 66, "failed to read /nowhere"),
        (&["--initrd", &here], &["--qemu", "/nowhere"], 69, "install QEMU"),
        (&["--initrd", &here], &["--kernel-config", "/nowhere"], 64, "cannot be used"),
        (&nowhere, &["--expect", "refused", "--initdata", "none"], 64, "go together"),
    ] {
        let (ended, text) = smoke(initrd, more)?;
        assert_eq!(ended, code, "{more:?}");
        assert_tells(&text, &[words]);
    }
    Ok(())
}
