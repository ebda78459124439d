//! Pages about an account at one registry.

use anyhow::{Result, ensure};
use end_to_end::assert_tells;

use crate::recipes::follow::follow;
use crate::recipes::page::{Page, Way};
use crate::recipes::registries::{Account, Shop, TokenShop, prepare};
use crate::recipes::world::World;

/// A secret of another namespace, as the kubelet uses it.
pub fn image_pull_secret(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    let account = Account {
        username: "puller",
        password: "hunter2-pull",
    };
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
    let account = Account {
        username: "gitlab+deploy-token-1",
        password: "example",
    };
    let (name, realm) = ("registry.gitlab.com", "gitlab.com/jwt/auth");
    let shop = TokenShop::open(&world, name, realm, account, "team/app")?;
    let followed = follow(page, way, shop.shop.digest())?;
    if way == Way::Node {
        assert_tells(&followed.printed, &["allowed", shop.shop.digest()]);
    }
    shop.assert_pulled(&world, &followed, "/jwt/auth")
}
