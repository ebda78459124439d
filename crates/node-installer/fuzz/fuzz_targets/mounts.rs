//! Invariant: any list of mounts names an engine or none, and a line that is no mount of an engine
//! changes nothing.
#![cfg_attr(fuzzing, no_main)]

use node_installer::engine::Engine;

fuzzing::target!(|mounts: &[u8]| {
    let engine = Engine::of(mounts);
    let mut more = mounts.to_vec();
    more.extend(b"\n1 2 8:1 / / rw - ext4 /dev/sda1 rw");
    assert_eq!(Engine::of(&more), engine);
    let lines: Vec<&[u8]> = mounts.split(|byte| *byte == b'\n').collect();
    let each: Vec<Engine> = lines.iter().filter_map(|line| Engine::of(line)).collect();
    let agreed = each.first().filter(|first| each.iter().all(|one| one == *first));
    assert_eq!(engine, agreed.copied());
});
