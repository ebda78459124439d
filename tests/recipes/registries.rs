//! Registries under the names of the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use test_http::Request;
use test_http::pki::Authority;
use vm_harness::layout::{self, Layout};
use vm_harness::{Registry, Scratch, TokenServer};

use crate::recipes::follow::Followed;
use crate::recipes::front::Front;
use crate::recipes::world::{PLACE, World};

/// The account of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    pub username: &'a str,
    pub password: &'a str,
}

/// A `docker-registry` with a password, and one image in it.
#[derive(Debug)]
pub struct Shop {
    pub registry: Registry,
    pub layout: Layout,
    pub scratch: Scratch,
}

impl Shop {
    /// Starts one that answers at `name`, with the image as `repository:1`.
    pub fn open(
        world: &World,
        authority: &Authority,
        name: &str,
        account: Account<'_>,
        repository: &str,
    ) -> Result<Self> {
        let shop = Self::stock(authority, name, account, repository)?;
        world.lead(name, 443, shop.registry.port())?;
        Ok(shop)
    }

    /// The same, but nobody is led there yet.
    pub fn stock(
        authority: &Authority,
        name: &str,
        account: Account<'_>,
        repository: &str,
    ) -> Result<Self> {
        let scratch = Scratch::new()?;
        let Account { username, password } = account;
        let registry = Registry::start(&scratch, authority, &[name], username, password)?;
        let layout = layout::sample(&scratch.path().join("layout"))?;
        registry.push(&scratch, &layout.path, repository)?;
        Ok(Self { registry, layout, scratch })
    }

    /// The image's digest.
    pub fn digest(&self) -> &str {
        &self.layout.manifest
    }

    /// The image comes as it is, for who follows the page, and for nobody else.
    pub fn assert_pulled(&self, world: &World, followed: &Followed) -> Result<()> {
        self.assert_same(followed.pull_from(world)?.files()?)?;
        let nobody = Followed {
            document: String::new(),
            image: followed.image.clone(),
            printed: String::new(),
        };
        let refusal = nobody.pull_from(world)?;
        let said = refusal.refusal()?;
        ensure!(said.contains("401"), "who is nobody is told: {said}");
        Ok(())
    }

    /// These are the files of the image.
    pub fn assert_same(&self, files: BTreeMap<String, (u32, String)>) -> Result<()> {
        ensure!(files == self.layout.files, "another image: {files:?}");
        Ok(())
    }
}

/// Does something on the node before the page begins.
pub fn prepare(commands: &str) -> Result<()> {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(PLACE)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{commands}: {said}");
    Ok(())
}

/// A token server, and the registry that sends its clients there.
#[derive(Debug)]
pub struct TokenShop {
    /// The blobs, and who can push.
    pub shop: Shop,
    /// Who gives tokens.
    pub tokens: TokenServer,
    /// Who wants them.
    _registry: Registry,
    /// Where both have one host.
    _front: Option<Front>,
}

impl TokenShop {
    /// Opens a registry at `name` whose tokens are to be had at `realm`, a host and a path, for an
    /// account.
    pub fn open(
        world: &World,
        authority: &Authority,
        name: &str,
        realm: &str,
        account: Account<'_>,
        repository: &str,
    ) -> Result<Self> {
        let Account { username, password } = account;
        let shop = Shop::stock(authority, name, account, repository)?;
        let (host, path) = realm.split_once('/').context("a realm without a path")?;
        let tokens = TokenServer::start(&shop.scratch, authority, host, username, password)?;
        let registry = shop.registry.with_tokens(
            &shop.scratch,
            authority,
            &[name],
            tokens.signer(),
            &format!("https://{realm}"),
        )?;
        let front = if host == name {
            let path = format!("/{path}");
            let ports = [(path.as_str(), tokens.port()), ("/", registry.port())];
            Some(Front::open(world, authority, name, &ports)?)
        } else {
            world.lead(name, 443, registry.port())?;
            world.lead(host, 443, tokens.port())?;
            None
        };
        Ok(Self { shop, tokens, _registry: registry, _front: front })
    }

    /// As [`Shop::assert_pulled`], by tokens for the one repository, from `path`.
    pub fn assert_pulled(&self, world: &World, followed: &Followed, path: &str) -> Result<()> {
        self.shop.assert_pulled(world, followed)?;
        let given = self.tokens.given();
        let scopes: BTreeSet<_> = given.scopes.into_iter().collect();
        let image = followed.image.split_once('/').unwrap_or_default().1;
        let repository = image.split_once('@').unwrap_or_default().0;
        let wanted = format!("repository:{repository}:pull");
        assert!(scopes.contains(&wanted), "{scopes:?}");
        let requests = self.tokens.requests();
        let is_there = |request: &Request| request.target.starts_with(&format!("{path}?"));
        assert!(requests.iter().all(is_there), "{requests:?}");
        Ok(())
    }
}
