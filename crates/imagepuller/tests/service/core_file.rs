//! The service has passwords in its memory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use vm_harness::Scratch;

use crate::support::Puller;

/// Debian's `nobody`.
const NOBODY: u32 = 65534;

/// The kernel gives what it shows of a process to root if no core may be written of it. Under
/// `ulimit -c unlimited` it once would have left one, unless a unit said otherwise.
#[test]
fn privileged_no_core_is_written_of_the_service() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o711)).unwrap();
    let directory = tempfile::tempdir_in(scratch.path()).unwrap().keep();
    let puller = Puller::start_as(NOBODY, directory);
    let process = format!("/proc/{}", puller.id());
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    assert!(status.contains(&format!("Uid:\t{NOBODY}\t")), "{status}");
    assert_eq!(fs::metadata(format!("{process}/status")).unwrap().uid(), 0);
}
