//! Invariant: what is read as a list of registries has few names of single hosts, which are read
//! again from what they are shown as, and have nothing in common with a list but what both have; a
//! refusal repeats nothing.
#![cfg_attr(fuzzing, no_main)]

use puller_config::{MAX_LIST_BYTES, MAX_LISTED, OnlyRegistries};

fuzzing::target!(|text: &str| {
    let list = match OnlyRegistries::parse(text) {
        Ok(list) => list,
        Err(error) => {
            let said = error.to_string();
            assert!(!said.contains(char::is_control) && said.len() < 300);
            return;
        }
    };
    assert!(text.len() <= MAX_LIST_BYTES && (1..=MAX_LISTED).contains(&list.len()));
    let shown: Vec<_> = list.iter().map(ToString::to_string).collect();
    assert_eq!(OnlyRegistries::parse(&shown.join(" ")).as_ref(), Ok(&list));
    assert_eq!(list.and(&list).and(&list), list.and(&list));
    for name in list.iter() {
        let host = name.host().expect("a single host");
        let repository = name.repositories().unwrap_or("any");
        assert!(list.has(&host, repository) && list.touches(name));
        let one: OnlyRegistries = [name.clone()].into_iter().collect();
        assert_eq!(list.and(&one).has(&host, repository), list.has(&host, repository));
    }
});
