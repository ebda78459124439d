//! `kata-configdev inspect`: a block device. `guest` asks both sides about initdata; the page
//! `cases/inspect.md` has what is shown of images.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;
mod guest;
#[path = "../../initdata-processor/tests/machine/mod.rs"]
mod machine;

use std::process::Command;

use command::{Folder, Run, run};

/// What the command says of a file with this content, for people and as JSON; both end alike.
fn inspect(content: &[u8]) -> (Run, Run) {
    let folder = Folder::new();
    let path = folder.file("image", content);
    let (text, json) = (run(&["inspect", &path]), run(&["inspect", "--json", &path]));
    assert_eq!((text.code, text.stderr.as_str()), (json.code, json.stderr.as_str()));
    (text, json)
}

#[test]
fn privileged_a_block_device_is_read() {
    let path = "../../tests/data/disks/imgpullr.img";
    let losetup = |arguments: &[&str]| Command::new("losetup").args(arguments).output();
    let attached = losetup(&["--find", "--show", "--read-only", path])
        .ok()
        .filter(|output| output.status.success());
    let Some(attached) = attached else {
        test_command::skip(
            "losetup cannot attach a loop device (needs root and /dev/loop-control)",
        );
        return;
    };
    let device = String::from_utf8(attached.stdout).unwrap();
    let shown = run(&["inspect", "--json", device.trim()]);
    let _ = losetup(&["--detach", device.trim()]);
    let file = run(&["inspect", "--json", path]);
    assert_eq!(shown.stdout.replace(device.trim(), path), file.stdout, "{shown:?}");
}
