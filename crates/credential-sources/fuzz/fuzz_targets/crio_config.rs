//! Invariant: any file is refused with its line, or says the same twice; behind another one it
//! wins.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::crio_config::CrioConfig;

fuzzing::target!(|bytes: &[u8]| {
    let mut once = CrioConfig::default();
    if let Err(error) = once.add(bytes, "a.conf") {
        assert!(!error.message.contains(char::is_control));
        assert_eq!(once, CrioConfig::default());
        return;
    }
    let mut twice = once.clone();
    twice.add(bytes, "a.conf").expect("as before");
    assert_eq!(once, twice);
});
