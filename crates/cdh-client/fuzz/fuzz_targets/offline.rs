//! Invariant: any bytes are a file of resources or an error of fixed words, and no resource is
//! larger than the file.
#![cfg_attr(fuzzing, no_main)]

use cdh_client::fuzz::find;

fuzzing::target!(|bytes: &[u8]| {
    match find(bytes, "a/b/c") {
        Ok((found, times)) => {
            assert!(times > 0 || found.is_empty());
            assert!(found.len() < bytes.len());
        }
        Err(fault) => assert!(fault.to_string().starts_with("is not as it has to be: ")),
    }
});
