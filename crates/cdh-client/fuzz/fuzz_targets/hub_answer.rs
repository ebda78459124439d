//! Invariant: any bytes are a resource, or options, that fit them, or refused without being quoted.
#![cfg_attr(fuzzing, no_main)]

use cdh_client::Fault;
use cdh_client::fuzz::{hub_answer, options};

fuzzing::target!(|bytes: &[u8]| {
    match hub_answer(bytes) {
        Ok(resource) => assert!(resource.len() <= bytes.len()),
        Err(Fault::Call { .. } | Fault::Answer { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    if let Ok(options) = options(bytes) {
        assert!(options.len() < bytes.len());
    }
});
