//! What plugins leave behind is ended, and nothing else.

use std::path::Path;
use std::process::Command;

use super::{Plugins, SANDBOX, answer, user};
use crate::wrapper::process::Waiting;

/// A plugin starts a process in a session of its own, which went on as a child of QEMU.
#[test]
fn the_wrapper_leaves_no_process_behind() {
    let mut plugins = Plugins::new();
    let fled = plugins.node.path("fled");
    let first = format!(
        "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 3600' >/dev/null 2>&1 &\n\
         while [ ! -e {0} ]; do sleep 0.01; done",
        fled.display()
    );
    plugins.add("one", &first, &answer("Registry", "*.corp *.corp:5000", "one"));
    let (document, stderr) = plugins.start();
    assert_eq!(user(&document, "reg.corp").as_deref(), Some("one"));
    assert_eq!(stderr, "");
    let pid = std::fs::read_to_string(fled).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    assert!(!process.exists(), "it goes on as {pid}");
}

/// A site's script starts a helper and becomes the wrapper. The helper is a child of the wrapper's
/// then, and of QEMU's; it was killed as if a plugin had left it behind.
#[test]
fn children_of_before_live_on() {
    let mut plugins = Plugins::new();
    let [helper, fled] = ["helper", "fled"].map(|name| plugins.node.path(name));
    // What a helper of the helper abandons while a plugin is asked becomes the wrapper's, too.
    let script = format!(
        "sh -c 'sh -c \"while [ ! -e {1} ]; do sleep 0.01; done; exec sleep 3600\" & \
         echo $! $$ > {0}.new; mv {0}.new {0}; while [ ! -e {1} ]; do sleep 0.01; done' \
         </dev/null >/dev/null 2>&1 &\n\
         while [ ! -e {0} ]; do sleep 0.01; done; exec \"$0\" \"$@\"",
        helper.display(),
        fled.display()
    );
    plugins.add(
        "one",
        &format!(
            "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 3600' >/dev/null 2>&1 &\n\
             while [ ! -e {0} ]; do sleep 0.01; done",
            fled.display()
        ),
        &answer("Registry", "*.corp *.corp:5000", "one"),
    );
    plugins.write();
    let mut command = Command::new("/bin/sh");
    plugins.node.place(&mut command);
    command.args(["-c", &script, env!("CARGO_BIN_EXE_kata-configdev-qemu")]).args(SANDBOX);
    let waiting = Waiting::start(command);
    let process = |name: &str| Path::new("/proc").join(name);
    let stat = |number: &str| std::fs::read_to_string(process(number).join("stat"));
    let helpers = std::fs::read_to_string(helper).unwrap();
    let (abandoned, child) = helpers.trim().split_once(' ').unwrap();
    let abandoned_stat = stat(abandoned).unwrap_or_default();
    let child_stat = stat(child).unwrap_or_default();
    let fled = std::fs::read_to_string(fled).unwrap();
    let has_fled = process(fled.trim()).exists();
    let (status, stderr) = waiting.finish();
    let _ = Command::new("kill").arg(abandoned).status();
    assert_eq!((status.code(), stderr.as_str()), (Some(7), ""));
    assert!(!abandoned_stat.is_empty() && !abandoned_stat.contains(") Z "), "{abandoned_stat}");
    assert!(!child_stat.is_empty(), "it ended by itself, and nobody took leave of it");
    assert!(!has_fled, "{fled} goes on");
}
