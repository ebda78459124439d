//! A broker that is asked for layer keys only says what time it is, too.

use std::fs;

use confidential_fixtures::encrypted::{KeyKind, Rewrap, Which};
use confidential_fixtures::{Kbs, Policy, Vault};
use test_http::pki::Authority;

use super::place::Place;

/// The first pull once went on by a clock that the broker had just shown to be wrong; only the next
/// one was refused.
#[test]
fn privileged_the_clock_is_looked_at_again_after_the_broker_gave_the_keys() {
    vm_harness::needs_root!();
    const KEK: &str = "kbs:///team/kek/c";
    let place = Place::start();
    let expected = place.expected();
    let key = place.key("key", KeyKind::Rsa2048);
    let image = place.encrypt("image", &[&key], Which::All);
    let rewrap = Rewrap::new(KEK).unwrap();
    let image = rewrap.apply(&place.0.scratch, "wrapped", &image, &key);
    let image = place.push(&image.unwrap());
    let authority = Authority::new("the broker's").unwrap();
    for (date, is_refused) in
        [("Fri, 20 Nov 2020 00:00:00 GMT", false), ("Sun, 20 Nov 2996 00:05:00 GMT", true)]
    {
        let vault = Vault::new().with("team/kek/c", rewrap.key);
        let policy = Policy { date: Some(date), ..Policy::default() };
        let broker = Kbs::start(vault, policy, Some((&authority, "localhost"))).unwrap();
        let measured = place.0.scratch.path().join("measured.toml");
        let text = format!(
            "[resources]\nsources = [\"kbs={}\"]\nkbs-attester = \"sample\"\n\
             kbs-ca-certs = '''{}'''\n",
            broker.base(),
            authority.certificate()
        );
        fs::write(&measured, text).unwrap();
        let more = ["--measured", measured.to_str().unwrap()];
        // The registry's credentials are at hand, so nothing was asked of the broker before.
        let pulled = place.pull(&image, &place.document(&[]), &more);
        match is_refused {
            false => assert_eq!(pulled.files(), expected),
            true => {
                let refusal = pulled.refusal(70);
                let words = "the guest's clock is before Sun, 20 Nov 2996 00:00:00 GMT, what the \
                    key broker said";
                assert!(refusal.contains(words), "{refusal}");
            }
        }
        assert!(!broker.given().is_empty(), "{date}");
    }
}
