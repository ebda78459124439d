//! Invariant: whatever the bytes of a program are, the version that is told of it is short and
//! printable, and stands in them.
#![cfg_attr(fuzzing, no_main)]

fuzzing::target!(|data: &[u8]| {
    if let Some(version) = program_version::of_program(data) {
        assert!(version.len() <= 160);
        assert!(version.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        let version = version.as_bytes();
        assert!(data.windows(version.len()).any(|part| part == version));
    }
});
