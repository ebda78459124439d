//! Pages about mirrors, and about what else lies between guests and the web.

use std::fs;

use anyhow::{Result, ensure};
use end_to_end::{HostPull, assert_tells};
use test_http::pki::Authority;
use vm_harness::Proxy;
use vm_harness::proxy::Rules;

use crate::recipes::follow::{Followed, follow};
use crate::recipes::front::{Front, Way as FrontWay};
use crate::recipes::page::{Page, Way};
use crate::recipes::registries::{Account, Shop, TokenShop, prepare};
use crate::recipes::world::{PLACE, World};

/// The account of a page whose document has the password in it.
const fn account(username: &str) -> Account<'_> {
    Account { username, password: "example" }
}

/// Puts the certificate of a private CA where the page says that it is.
fn give_certificate(authority: &Authority, name: &str) -> Result<()> {
    Ok(fs::write(format!("{PLACE}/{name}"), authority.certificate())?)
}

/// The page's pod, and others that its text promises, are pulled by nothing but the document.
fn assert_pulled(shop: &Shop, followed: &Followed, more: &[&str]) -> Result<()> {
    shop.assert_same(followed.pull()?.run(&followed.image)?.files()?)?;
    for name in more {
        let image = format!("{name}@{}", shop.digest());
        shop.assert_same(HostPull::new(&followed.document)?.run(&image)?.files()?)?;
    }
    Ok(())
}

/// A proxy cache project, and a project of one's own.
pub fn harbor(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    world.without_the_web()?;
    let private = Authority::new("Harbor's CA")?;
    give_certificate(&private, "harbor-ca.crt")?;
    let (name, realm) = ("harbor.corp", "harbor.corp/service/token");
    let account = account("robot$team+guest");
    let harbor = TokenShop::open(&world, &private, name, realm, account, "hub/library/app")?;
    let shop = &harbor.shop;
    shop.registry.push(&shop.scratch, &shop.layout.path, "team/app")?;
    let followed = follow(page, way, shop.digest())?;
    assert_pulled(shop, &followed, &["harbor.corp/team/app"])?;
    let scopes = harbor.tokens.given().scopes;
    ensure!(scopes.contains(&"repository:hub/library/app:pull".to_owned()), "{scopes:?}");
    Ok(())
}

/// The path of a remote repository, and the repository path method.
pub fn artifactory(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    world.without_the_web()?;
    let private = Authority::new("Artifactory's CA")?;
    give_certificate(&private, "artifactory-ca.crt")?;
    let name = "artifactory.corp";
    let shop = Shop::stock(&private, name, account("guest"), "docker-local/team/app")?;
    shop.registry.push(&shop.scratch, &shop.layout.path, "library/app")?;
    let path = "/artifactory/api/docker/docker-remote/";
    let remote = shop.registry.with_prefix(&shop.scratch, &private, &[name], path)?;
    let ports = [(path, remote.port()), ("/", shop.registry.port())];
    let _front = Front::open(&world, &private, name, &ports)?;
    let followed = follow(page, way, shop.digest())?;
    assert_pulled(&shop, &followed, &["artifactory.corp/docker-local/team/app"])
}

/// Images carried to where the web is not.
pub fn air_gapped(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    world.without_the_web()?;
    let private = Authority::new("the mirror's CA")?;
    give_certificate(&private, "mirror-ca.crt")?;
    let source = "registry.example";
    let shop = Shop::open(&world, &world.web, source, account("puller"), "team/app")?;
    let mirror = Shop::open(&world, &private, "mirror.corp", account("puller"), "other")?;
    prepare(
        "mkdir -p /etc/containers/certs.d/mirror.corp /media/.\n\
         cp mirror-ca.crt /etc/containers/certs.d/mirror.corp/ca.crt\n\
         for name in registry.example mirror.corp; do\n\
         echo example | skopeo login --username puller --password-stdin $name\n\
         done",
    )?;
    let followed = follow(page, way, shop.digest())?;
    world.forget(source)?;
    assert_pulled(&shop, &followed, &[])?;
    drop(mirror);
    let elsewhere = format!("other.example/team/app@{}", shop.digest());
    let refused = HostPull::new(&followed.document)?.run(&elsewhere)?;
    assert_tells(refused.refusal()?, &["other.example is forbidden"]);
    Ok(())
}

/// The file of K3s, which a node has.
pub fn k3s(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    world.without_the_web()?;
    let private = Authority::new("the mirror's CA")?;
    give_certificate(&private, "mirror-ca.crt")?;
    prepare(
        "mkdir -p /etc/rancher/k3s\n\
         cp mirror-ca.crt /etc/rancher/k3s/\n\
         cat >/etc/rancher/k3s/registries.yaml <<'END'\n\
         mirrors:\n  docker.io:\n    endpoint: [\"https://mirror.corp\"]\n    \
         rewrite: {\"^library/(.*)\": \"hub/$1\"}\n\
         configs:\n  mirror.corp:\n    auth: {username: puller, password: example}\n    \
         tls: {ca_file: /etc/rancher/k3s/mirror-ca.crt}\nEND\n",
    )?;
    let shop = Shop::open(&world, &private, "mirror.corp", account("puller"), "hub/app")?;
    let followed = follow(page, way, shop.digest())?;
    assert_pulled(&shop, &followed, &["mirror.corp/hub/app"])
}

/// A proxy that alone knows the registry, and shows a certificate of its own in its place.
pub fn corporate_proxy(page: &Page, way: Way) -> Result<()> {
    let world = World::new()?;
    world.without_the_web()?;
    let private = Authority::new("the proxy's CA")?;
    give_certificate(&private, "proxy-ca.crt")?;
    let name = "registry.example";
    let shop = Shop::stock(&world.web, name, account("puller"), "team/app")?;
    // What the proxy takes for the registry.
    let inside = FrontWay::open(&shop.scratch, shop.registry.port())?;
    let opener = Proxy::tls_front(&shop.scratch, &private.sign(&[name])?, inside.port())?;
    world.relay(([127, 0, 0, 1], 443).into(), opener.port())?;
    let rules = Rules { username: "guest", password: "example", names: &[name], ports: &[443] };
    let proxy = Proxy::tinyproxy(&shop.scratch, &rules)?;
    world.lead("proxy.corp", 3128, proxy.port())?;
    let followed = follow(page, way, shop.digest())?;
    assert_pulled(&shop, &followed, &[])?;
    ensure!(proxy.asked().iter().all(|asked| asked == "registry.example:443"));
    Ok(())
}
