//! Pages about an account at one registry.

use std::path::Path;

use anyhow::{Result, ensure};
use confidential_fixtures::{DataHub, Vault};
use end_to_end::assert_tells;

use crate::recipes::follow::follow;
use crate::recipes::page::{Page, Way};
use crate::recipes::registries::{Account, Shop, TokenShop, prepare};
use crate::recipes::world::{World, program};

/// A secret of another namespace, as the kubelet uses it.
pub fn image_pull_secret(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let account = Account { username: "puller", password: "hunter2-pull" };
    let shop = Shop::open(&world, &world.web, "registry.example", account, "team/app")?;
    prepare(
        "kubectl -n team create secret docker-registry regcred --docker-server=registry.example \
         --docker-username=puller --docker-password=hunter2-pull",
    )?;
    let followed = follow(page, way, shop.digest())?;
    if way == Way::Node {
        assert_tells(&followed.printed, &["allowed", shop.digest()]);
    }
    ensure!(!followed.printed.contains("hunter2"), "a password shows");
    shop.assert_pulled(&world, &followed)
}

/// A deploy token, and a token server at another host.
pub fn gitlab(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let account = Account { username: "gitlab+deploy-token-1", password: "example" };
    let (name, realm) = ("registry.gitlab.com", "gitlab.com/jwt/auth");
    let shop = TokenShop::open(&world, &world.web, name, realm, account, "team/app")?;
    let followed = follow(page, way, shop.shop.digest())?;
    if way == Way::Node {
        assert_tells(&followed.printed, &["allowed", shop.shop.digest()]);
    }
    shop.assert_pulled(&world, &followed, "/jwt/auth")
}

/// An account that only the broker has. The guest asks the hub of its image.
pub fn key_broker(page: &Page, way: Way) -> Result<()> {
    const SECRET: &str = "default/credential/registry";
    let world = World::new()?;
    let account = Account { username: "puller", password: "hunter2-broker" };
    let shop = Shop::open(&world, &world.web, "registry.example", account, "team/app")?;
    // Keeps what it is given, with the arguments of Trustee's own client.
    let client = "#!/usr/bin/env bash\nset -euo pipefail\n\
        [ \"${*:1:6}\" = '--url https://kbs.corp config --auth-private-key kbs-admin.key \
        set-resource' ]\n[ \"$7 $9\" = '--path --resource-file' ]\n\
        install -D \"${10}\" \"/mnt/broker/$8\"\n";
    program(Path::new("/usr/local/bin"), "kbs-client", client)?;
    prepare("echo hunter2-broker >password")?;
    let followed = follow(page, way, shop.digest())?;
    ensure!(!followed.document.contains("hunter2"), "the node has it");
    let secret = std::fs::read(Path::new("/mnt/broker").join(SECRET))?;
    let socket = Path::new("/run/confidential-containers/cdh.sock");
    std::fs::create_dir_all(socket.parent().unwrap())?;
    let pull = || -> Result<_> {
        let pull = followed.pull()?.measured(&world.measured_roots());
        pull.resources(&format!("cdh=unix:{}", socket.display())).run(&followed.image)
    };
    // A guest to which the broker gives nothing has no account, and asks nobody without one.
    let hub = DataHub::start(socket, Vault::new())?;
    let before = shop.registry.requests();
    assert_tells(pull()?.refusal()?, &["the broker gave nothing usable to this guest"]);
    assert_eq!(shop.registry.requests(), before, "the registry was asked");
    drop(hub);
    std::fs::remove_file(socket)?;
    let hub = DataHub::start(socket, Vault::new().with(SECRET, secret))?;
    shop.assert_same(pull()?.files()?)?;
    assert_eq!(hub.asked(), [format!("kbs:///{SECRET}")]);
    Ok(())
}
