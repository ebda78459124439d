//! What was deleted is refused by its name, as every unknown key and option is.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use end_to_end::assert_tells;
use vm_harness::process::bound_command;
use vm_harness::{Program, Scratch};

const MAIN: &str = "config.toml";
const DROP_IN: &str = "config.d/50-node.toml";
const DOCUMENT: &str = "document.toml";

/// A program and its arguments, what one file of its folder says, and how the program
/// ends: its exit code and words.
type Row = (Program, &'static str, (&'static str, &'static str), (i32, &'static str));

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // The scratch disk.
    (Program::KataConfigdevQemu, "-name sandbox-s1", (MAIN, "[scratch]\nsize = \"8G\"\n"),
        (65, "config.toml:2: unknown field `scratch`")),
    (Program::KataConfigdevQemu, "-name sandbox-s1", (DROP_IN, "scratch.size = \"8G\"\n"),
        (65, "50-node.toml:1: unknown field `scratch`")),
    (Program::KataConfigdev, "config", (MAIN, "[scratch]\n"),
        (65, "config.toml:2: unknown field `scratch`")),
    (Program::Imagepuller, "serve --listen unix:/x --store /x --config /x --scratch", (MAIN, ""),
        (64, "unexpected argument '--scratch'")),
    // Commands that nobody needs in a guest without a shell.
    (Program::Imagepuller, "lint alpine:3.20", (MAIN, ""), (64, "unrecognized subcommand 'lint'")),
    (Program::Imagepuller, "list --store /x", (MAIN, ""), (64, "unrecognized subcommand 'list'")),
    (Program::Imagepuller, "gc --store /x", (MAIN, ""), (64, "unrecognized subcommand 'gc'")),
    (Program::Imagepuller, "status --follow", (MAIN, ""), (64, "unexpected argument '--follow'")),
    // Programs that `imagepuller hub` started.
    (Program::Imagepuller, "hub --settings /x", (MAIN, ""),
        (64, "unexpected argument '--settings'")),
    // Sealed secrets as credentials, and another name of a source.
    (Program::KataConfigdev, "check document.toml",
        (DOCUMENT, "[registries.r]\nusername = 'u'\npassword = 'sealed.YQ.YQ.YQ'\n"),
        (65, "registries.r.password: begins with \"sealed.\"")),
    (Program::KataConfigdev, "check document.toml",
        (DOCUMENT, "[decryption-keys]\nkeys = ['sealed.YQ.YQ.YQ']\n"), (65, "neither base64 of a key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nsource = 'offline=/a'\n"), (65, "resources.source: a source is")),
    // Key brokers that the guest asked itself, and several sources.
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nsources = []\n"), (65, "resources.sources: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nfrom = {}\n"), (65, "resources.from: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nkbs-ca-certs = 'none'\n"), (65, "resources.kbs-ca-certs: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nkbs-token-file = '/a'\n"), (65, "resources.kbs-token-file: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nkbs-attester = 'sample'\n"), (65, "resources.kbs-attester: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nunwrap-always = true\n"), (65, "resources.unwrap-always: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nunwrap = ['cdh=unix:/a']\n"), (65, "resources.unwrap: expected boolean")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nsource = 'kbs=https://kbs.corp'\n"), (65, "resources.source: a source is")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[resources]\nsource = 'rest=http://127.0.0.1'\n"), (65, "resources.source: a source is")),
    (Program::Imagepuller, "serve --listen unix:/x --store /x --config /x --resources x", (MAIN, ""),
        (64, "unexpected argument '--resources'")),
    (Program::Imagepuller, "serve --listen unix:/x --store /x --config /x --initdata x", (MAIN, ""),
        (64, "unexpected argument '--initdata'")),
    (Program::Imagepuller, "pull --output x busybox --resources x", (MAIN, ""),
        (64, "unexpected argument '--resources'")),
    (Program::Imagepuller, "pull --output x busybox --initdata x", (MAIN, ""),
        (64, "unexpected argument '--initdata'")),
    (Program::Imagepuller, "probe busybox --resources x", (MAIN, ""),
        (64, "unexpected argument '--resources'")),
    (Program::Imagepuller, "probe busybox --initdata x", (MAIN, ""),
        (64, "unexpected argument '--initdata'")),
    // Dialects of image policies.
    (Program::KataConfigdev, "check --measured measured.toml", (
        "measured.toml", "[image-policy]\nuri = \"kbs:///a/b/c\"\ndialect = \"coco\"\n",
    ), (65, "image-policy.dialect: unknown key")),
    (Program::KataConfigdev, "policy check --coco policy.json", (MAIN, ""),
        (64, "unexpected argument '--coco'")),
    (Program::KataConfigdev, "policy explain --coco policy.json busybox", (MAIN, ""),
        (64, "unexpected argument '--coco'")),
    (Program::Imagepuller, "pull --output x --policy policy.json --coco busybox", (MAIN, ""),
        (64, "unexpected argument '--coco'")),
    (Program::KataConfigdev, "policy check policy.json", ("policy.json", r#"{"default": [{
        "type": "sigstoreSigned", "keyPath": "/k", "signedIdentity": {"type": "remapIdentity",
        "prefix": "mirror.corp/vendor", "signedPrefix": "registry.vendor.example"}}]}"#),
        (65, "default[0].signedIdentity (line 2) is a remapIdentity, which is not supported")),
    // Former forms and versions.
    (Program::KataConfigdev, "check --for 0.1.0 x", (MAIN, ""),
        (64, "unexpected argument '--for'")),
    (Program::KataConfigdev, "install --watch --config x", (MAIN, ""),
        (64, "unexpected argument '--watch'")),
    (Program::InitdataProcessor, "refresh imagepuller", (MAIN, ""),
        (64, "unexpected argument 'imagepuller'")),
    (Program::InitdataProcessor, "refresh --watch", (MAIN, ""),
        (64, "unexpected argument '--watch'")),
    (Program::InitdataProcessor, "--strict-exit", (MAIN, ""),
        (64, "unexpected argument '--strict-exit'")),
    (Program::InitdataProcessor, "--layout kata-agent", (MAIN, ""),
        (64, "unexpected argument '--layout'")),
    (Program::InitdataProcessor, "--expect initdata", (MAIN, ""),
        (64, "unexpected argument '--expect'")),
    (Program::InitdataProcessor, "--wait 1", (MAIN, ""), (64, "unexpected argument '--wait'")),
    (Program::InitdataProcessor, "--patience 1", (MAIN, ""),
        (64, "unexpected argument '--patience'")),
    (Program::InitdataProcessor, "check-image .", (MAIN, ""),
        (64, "unrecognized subcommand 'check-image'")),
    // Lists of registries. The annotation: kata-configdev/tests/wrapper/refusal.rs; what the
    // installer and the chart had: installer/namespaces.rs there, deploy/chart/cases/refused.
    (Program::KataConfigdevQemu, "-name sandbox-s1", (MAIN, "only-registries = []\n"),
        (65, "config.toml:2: unknown field `only-registries`")),
    (Program::KataConfigdev, "config", (DROP_IN, "namespaces.a.only-registries = []\n"),
        (65, "50-node.toml:1: unknown field `namespaces`")),
    // Whether pulls are recorded.
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "event-log = 'required'\n"), (65, "event-log: unknown key")),
    // Times: of the clock, of roots, of signatures.
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "clock-not-before = 2026-11-22T00:00:00Z\n"),
        (65, "clock-not-before: unknown key")),
    (Program::KataConfigdev, "check document.toml",
        (DOCUMENT, "[registries.r]\nca-certs = ''\nca-dates = false\n"),
        (65, "registries.r.ca-dates: unknown key")),
    (Program::KataConfigdev, "check --measured document.toml",
        (DOCUMENT, "[image-policy]\nfile = 'a'\nsigned-not-before = 2026-01-01T00:00:00Z\n"),
        (65, "image-policy.signed-not-before: unknown key")),
    // How long and how much at once. What `cdh.toml` says of it: cdh-config/tests/cases.
    (Program::KataConfigdev, "check --measured document.toml", (DOCUMENT, "[limits]\n"),
        (65, "limits: unknown key")),
    (Program::Imagepuller, "serve --layers-at-once 1", (MAIN, ""),
        (64, "unexpected argument '--layers-at-once'")),
    (Program::Imagepuller, "serve --attempts 1", (MAIN, ""),
        (64, "unexpected argument '--attempts'")),
    (Program::Imagepuller, "serve --stall-timeout 1", (MAIN, ""),
        (64, "unexpected argument '--stall-timeout'")),
    (Program::Imagepuller, "serve --linger 1", (MAIN, ""),
        (64, "unexpected argument '--linger'")),
    (Program::Imagepuller, "pull --attempts 1", (MAIN, ""),
        (64, "unexpected argument '--attempts'")),
    (Program::Imagepuller, "pull --stall-timeout 1", (MAIN, ""),
        (64, "unexpected argument '--stall-timeout'")),
    // Pins from manifests.
    (Program::KataConfigdev, "pins x", (MAIN, ""), (64, "unrecognized subcommand 'pins'")),
    // Further disks. What the guest's settings had: initdata-processor/src/settings.rs.
    (Program::KataConfigdevQemu, "-name sandbox-s1", (MAIN, "[disks]\n"),
        (65, "config.toml:2: unknown field `disks`")),
    (Program::KataConfigdev, "config", (DROP_IN, "disks.timesync.source = \"/x\"\n"),
        (65, "50-node.toml:1: unknown field `disks`")),
    (Program::KataConfigdev, "pack --magic timesync x --output x", (MAIN, ""),
        (64, "unexpected argument '--magic'")),
    (Program::KataConfigdev, "attach --magic timesync --bundle x --sandbox-id x", (MAIN, ""),
        (64, "unexpected argument '--magic'")),
    (Program::KataConfigdev, "update --magic timesync --sandbox-id x --empty", (MAIN, ""),
        (64, "unexpected argument '--magic'")),
];

#[test]
fn what_was_deleted_is_refused_by_name() -> Result<()> {
    for (program, arguments, (file, text), (code, says)) in ROWS {
        let scratch = Scratch::new()?;
        let main = scratch.write(MAIN, format!("run-root = {:?}\n", scratch.path()))?;
        fs::create_dir(scratch.path().join("config.d"))?;
        let file = scratch.path().join(file);
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, before + text)?;
        let output = bound_command(program.path()?)
            .args(arguments.split_whitespace())
            .current_dir(scratch.path())
            .env("KATA_CONFIGDEV_CONFIG", main)
            .output()
            .with_context(|| (*arguments).to_owned())?;
        let words = String::from_utf8([output.stdout, output.stderr].concat())?;
        assert_tells(&words, &[says]);
        assert_eq!(output.status.code(), Some(*code), "{words}");
    }
    Ok(())
}

/// A stock agent started the puller by the hub's name, which is no name of it any more.
#[test]
fn the_hubs_name_is_no_command() -> Result<()> {
    let scratch = Scratch::new()?;
    let name = scratch.path().join("confidential-data-hub");
    symlink(Program::Imagepuller.path()?, &name)?;
    let output = bound_command(name).args(["-c", "/x"]).output()?;
    assert_tells(&String::from_utf8(output.stderr)?, &["unexpected argument '-c'"]);
    assert_eq!(output.status.code(), Some(64));
    Ok(())
}
