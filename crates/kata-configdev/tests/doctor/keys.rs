//! The keys of Kata that a drop-in may have.

use crate::doctor::doctor;
use crate::doctor::node::Node;

/// It said so of `initrd` and `guest_extension_images`, which Kata's own main files have in prose
/// only.
#[test]
fn a_key_that_kata_knows_is_not_doubted_where_no_main_file_has_it() {
    let node = Node::new();
    node.drop_in(
        "60-own.toml",
        "[hypervisor.qemu]\ninitrd = \"/opt/kata/own.initrd\"\nimage = \"\"\n\
        snp_guest_policy = 196608\n\
        [[hypervisor.qemu.guest_extension_images]]\nname = \"own\"\npath = \"/own.img\"\n\
        [agent.kata]\nlaunch_process_timeout = 6\n",
    );
    let run = doctor(&node, &[]);
    run.succeeds();
    assert!(!run.stdout.contains("drop-in-unknown-key"), "{}", run.stdout);
    // Each table has keys of its own.
    let swapped = "[hypervisor.qemu]\nlaunch_process_timeout = 6\n[agent.kata]\ninitrd = \"\"\n";
    node.drop_in("60-own.toml", swapped);
    let run = doctor(&node, &[]);
    for place in ["60-own.toml:2: ", "60-own.toml:4: "] {
        let line = format!("{place}warning drop-in-unknown-key: ");
        assert!(run.stdout.contains(&line), "{}", run.stdout);
    }
}
