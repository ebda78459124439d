//! Invariant: any bytes are a resource that fits them, or refused without being quoted.
#![no_main]

use kbs_client::Fault;
use kbs_client::fuzz::hub_answer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match hub_answer(bytes) {
        Ok(resource) => assert!(resource.len() <= bytes.len()),
        Err(Fault::Call { .. } | Fault::Answer { .. }) => {}
        Err(other) => panic!("{other}"),
    }
});
