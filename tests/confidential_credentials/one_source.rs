//! Two brokers of the measured document, of which the host blocks the first for one resource.

use anyhow::Result;
use confidential_fixtures::encrypted::{Key, KeyKind, Rewrap, Which, encrypt};
use confidential_fixtures::{Kbs, Policy};
use end_to_end::{HostPull, assert_tells};
use fault_registry::{Login, Script};
use vm_harness::archive::Tar;
use vm_harness::is_root;
use vm_harness::layout::{Compression, of_archives};

use super::stage::{Stage, USER, assert_pulled, entry, name, references};

/// Who blocked the first broker for the credentials alone once had the second one's sent to a
/// registry that the first one's roots vouch for.
#[test]
fn privileged_the_host_blocks_one_broker_for_one_resource() -> Result<()> {
    if !is_root("privileged_the_host_blocks_one_broker_for_one_resource") {
        return Ok(());
    }
    let stage = Stage::set()?;
    let scratch = &stage.scratch;
    let tar = Tar::default().file("secret", [7; 3000]);
    let layers = vec![(tar.bytes(), Compression::Gzip)];
    let plain = of_archives(&scratch.path().join("plain"), layers)?;
    let key = Key::generate(scratch, "key", KeyKind::Rsa2048)?;
    let image = encrypt(scratch, "locked", &plain.path, &[&key], Which::All)?;
    let rewrap = Rewrap::new("kbs:///default/kek/1")?;
    let packets = rewrap.apply(scratch, "packets", &image, &key)?;
    let [credentials, ca_certs] = references();
    // (what the first broker does not give; whether that is what is asked for first)
    for (blocked, is_first, image) in [
        ("default/ca/registry", true, &image),
        ("default/credential/registry", false, &image),
        ("default/key/a", false, &image),
        ("default/kek/1", false, &packets),
    ] {
        let login = Login::basic(USER, &stage.password);
        let registry = stage.serve_layout(&image.path, Script::new().login(login))?;
        let vault = stage
            .vault(&registry)
            .with("default/key/a", key.pem()?)
            .with("default/kek/1", rewrap.key);
        let refused = Policy { refused: vec![blocked.to_owned()], ..Policy::default() };
        let document = entry("localhost", &[&credentials, &ca_certs])
            + "[decryption-keys]\nkeys = [\"kbs:///default/key/a\"]\n";
        for is_allowed in [false, true] {
            let first = Kbs::start(vault.clone(), refused.clone(), None)?;
            let second = Kbs::start(vault.clone(), Policy::default(), None)?;
            let (a, b) = (first.base(), second.base());
            let sources =
                format!("sources = [\"kbs={a}\", \"kbs={b}\"]\nkbs-attester = \"sample\"");
            let from = match is_allowed {
                true => format!("\"{blocked}\" = \"kbs={b}\""),
                false => String::new(),
            };
            let measured = format!("[resources]\n{sources}\n[resources.from]\n{from}\n");
            let pull = HostPull::new(&document)?.measured(&measured)?;
            let outcome = pull.run(&format!("{}/team/app@{}", name(&registry), image.manifest))?;
            stage.assert_kept(&outcome, &[]);
            if is_allowed {
                assert_pulled(&outcome)?;
                assert_eq!(second.given(), [blocked]);
            } else if is_first {
                assert_pulled(&outcome)?;
                assert_eq!(first.given(), [""; 0], "two brokers gave something");
            } else {
                outcome.refusal()?;
                let kept = [blocked, "it gave the pull's first secret"];
                assert_tells(&outcome.reasons, &kept);
                assert!(second.requests().is_empty(), "{blocked}: the second was asked");
            }
        }
    }
    Ok(())
}
