//! Which build the wrapper is.

use std::fs;

use crate::command::PROGRAM;
use crate::doctor::node::{Node, WRAPPER};

/// "Another build" was all that was said, and the wrapper cannot be asked by who must not start it.
#[test]
fn the_wrappers_version_is_told_where_it_is_another_build() {
    let wrapper = fs::read(env!("CARGO_BIN_EXE_kata-configdev-qemu")).unwrap();
    let node = Node::new();
    fs::write(node.path(WRAPPER), &wrapper).unwrap();
    let root = node.root();
    let run = || PROGRAM.run(&["doctor", "--host-root", &root]);
    assert!(!run().stdout.contains("wrapper-version"), "{:?}", run());
    fs::write(node.path(WRAPPER), [wrapper, vec![0]].concat()).unwrap();
    let version = program_version::VERSION;
    let line = format!(
        "/{WRAPPER}: note wrapper-version: it is version {version}, and is another build than the \
        one beside this program, which is version {version}; "
    );
    run().prints(&[&line]);
}
