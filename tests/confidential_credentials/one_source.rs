//! The one CDH that a guest asks, which the host has blocked for one resource.

use anyhow::Result;
use confidential_fixtures::DataHub;
use confidential_fixtures::encrypted::{Key, KeyKind, Rewrap, Which, encrypt};
use end_to_end::{HostPull, assert_tells};
use fault_registry::{Login, Script};
use vm_harness::archive::Tar;
use vm_harness::is_root;
use vm_harness::layout::{Compression, of_archives};

use super::stage::{Stage, USER, assert_pulled, entry, name, references};

/// Who blocked one broker for the credentials alone once had another one's sent to a registry that
/// the first one's roots vouch for.
#[test]
fn privileged_the_host_blocks_the_cdh_for_one_resource() -> Result<()> {
    if !is_root("privileged_the_host_blocks_the_cdh_for_one_resource") {
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
    for (blocked, image) in [
        ("default/ca/registry", &image),
        ("default/credential/registry", &image),
        ("default/key/a", &image),
        ("default/kek/1", &packets),
    ] {
        let login = Login::basic(USER, &stage.password);
        let registry = stage.serve_layout(&image.path, Script::new().login(login))?;
        let whole = stage
            .vault(&registry)
            .with("default/key/a", key.pem()?)
            .with("default/kek/1", rewrap.key);
        let document = entry("localhost", &[&credentials, &ca_certs])
            + "[decryption-keys]\nkeys = [\"kbs:///default/key/a\"]\n";
        for (name_of, vault) in [("blocked", whole.clone().without(blocked)), ("whole", whole)] {
            let socket = scratch.path().join(format!("{name_of}-{}", blocked.replace('/', "-")));
            let hub = DataHub::start(&socket, vault)?;
            let pull = HostPull::new(&document)?.resources(&hub.source());
            let outcome = pull.run(&format!("{}/team/app@{}", name(&registry), image.manifest))?;
            stage.assert_kept(&outcome, &[]);
            assert!(hub.asked().contains(&format!("kbs:///{blocked}")), "{blocked} was not asked");
            if name_of == "whole" {
                assert_pulled(&outcome)?;
            } else {
                outcome.refusal()?;
                assert_tells(&outcome.reasons, &[blocked, &hub.source()]);
            }
        }
    }
    Ok(())
}
