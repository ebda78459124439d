//! What is left to do once running sandboxes end after a removal, when nobody comes again.

use std::path::{Path, PathBuf};

use node_installer::Options;

use crate::shared_image;

/// A line that counts the sandboxes below `run_root`, as seen from here, and ends with the command
/// that removes what they leave.
pub(super) fn line(options: &Options, run_root: &Path, living: u64) -> String {
    let on_node = run_root.strip_prefix(&options.host).unwrap_or(run_root);
    let on_node = Path::new("/").join(on_node);
    let command = match program(options) {
        Some(program) => format!("{} sweep --run-root {}", word(&program), word(&on_node)),
        // QEMU holds a lock on its sandbox's record as long as it lives.
        None => format!(
            "(cd {} && for record in $(grep -ls '\"held\":true' */imagepuller.json); do flock \
            --nonblock \"$record\" rm -r \"${{record%/*}}\"; done)",
            word(&shared_image::parent(&on_node))
        ),
    };
    format!(
        "sandboxes that still have a configuration in {}: {living}; nobody removes what they \
        leave, so run this once they have ended: {command}",
        on_node.display()
    )
}

/// This program, where it is the node's own and did not go with the rest.
fn program(options: &Options) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    (options.host == Path::new("/") && program.is_file()).then_some(program)
}

/// A path as a word of a shell.
fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    match text.bytes().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
