//! Pages about images that skopeo encrypts.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use confidential_fixtures::{DataHub, Vault};
use end_to_end::assert_tells;

use crate::recipes::follow::{Followed, follow};
use crate::recipes::page::{Page, Way};
use crate::recipes::registries::{Account, Shop, prepare};
use crate::recipes::world::{PLACE, World, program};

/// What a guest says that has no key.
const REFUSAL: &str = "is encrypted and there is no key";

const ACCOUNT: Account<'_> = Account { username: "puller", password: "hunter2-encrypted" };

/// A registry, the image as the page has it, an owner who may push, and the pods' account.
fn open(world: &World) -> Result<Shop> {
    let shop = Shop::open(world, &world.web, "registry.example", ACCOUNT, "team/another")?;
    prepare(&format!(
        "cp -r '{}' app\n\
         echo {password} | skopeo login --username {user} --password-stdin registry.example\n\
         kubectl -n team create secret docker-registry regcred \
         --docker-server=registry.example --docker-username={user} --docker-password={password}",
        shop.layout.path.display(),
        user = ACCOUNT.username,
        password = ACCOUNT.password,
    ))?;
    Ok(shop)
}

/// The page was followed, and the registry has the image encrypted only.
fn encrypted(page: &Page, way: Way, shop: &Shop) -> Result<Followed> {
    let followed = follow(page, way, shop.digest())?;
    for secret in ["hunter2", "PRIVATE"] {
        ensure!(!followed.printed.contains(secret), "a secret shows");
    }
    prepare(&format!(
        "skopeo inspect --raw 'docker://{}' >manifest\n\
         jq -e '[.layers[].mediaType | endswith(\"+encrypted\")] | length > 0 and all' manifest",
        followed.image
    ))?;
    Ok(followed)
}

/// The same guest without the keys in its document.
fn without_keys(followed: &Followed) -> Followed {
    let (before, table) = followed.document.split_once("[decryption-keys").unwrap();
    let behind = table.split_once("\n[");
    Followed {
        document: format!("{before}[{}", behind.map_or("extra-env]", |(_, rest)| rest)),
        image: followed.image.clone(),
        printed: String::new(),
    }
}

/// The key comes with the document.
pub fn secret(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let shop = open(&world)?;
    let followed = encrypted(page, way, &shop)?;
    if way == Way::Node {
        let what = "image-key.pem: a private key, RSA, for registry.example/team/app";
        assert_tells(&followed.printed, &[what]);
    }
    shop.assert_pulled(&world, &followed)?;
    let refused = without_keys(&followed).pull_from(&world)?;
    assert_tells(refused.refusal()?, &[REFUSAL]);
    Ok(())
}

/// The document has the key's name, and the guest asks the hub of its image.
pub fn broker(page: &Page, way: Way) -> Result<()> {
    const KEY: &str = "default/image-key/1";
    let world = World::new()?;
    let shop = open(&world)?;
    // Keeps what it is given, with the arguments of Trustee's own client.
    let client = "#!/usr/bin/env bash\nset -euo pipefail\n\
        [ \"${*:1:6}\" = '--url https://kbs.corp config --auth-private-key kbs-admin.key \
        set-resource' ]\n[ \"$7 $9\" = '--path --resource-file' ]\n\
        install -D \"${10}\" \"/mnt/broker/$8\"\n";
    program(Path::new("/usr/local/bin"), "kbs-client", client)?;
    let followed = encrypted(page, way, &shop)?;
    ensure!(!followed.document.contains("LS0tLS1"), "the node has a key");
    ensure!(!Path::new(PLACE).join("image-key.pem").exists());
    let key = fs::read(Path::new("/mnt/broker").join(KEY))?;
    let socket = Path::new("/run/confidential-containers/cdh.sock");
    fs::create_dir_all(socket.parent().unwrap())?;
    let pull = |followed: &Followed| -> Result<_> {
        let pull = followed.pull()?.measured(&world.measured_roots());
        pull.resources(&format!("cdh=unix:{}", socket.display())).run(&followed.image)
    };
    // A broker that gives this guest nothing.
    let hub = DataHub::start(socket, Vault::new())?;
    ensure!(pull(&followed)?.refusal()?.contains("encrypted"));
    drop(hub);
    fs::remove_file(socket)?;
    let hub = DataHub::start(socket, Vault::new().with(KEY, key))?;
    let refused = pull(&without_keys(&followed))?;
    assert_tells(refused.refusal()?, &[REFUSAL]);
    shop.assert_same(pull(&followed)?.files()?)?;
    assert_eq!(hub.asked(), [format!("kbs:///{KEY}")]);
    Ok(())
}
