//! Registries under the names of the pages.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Result, ensure};
use test_http::pki::Authority;
use vm_harness::layout::{self, Layout};
use vm_harness::{Registry, Scratch};

use crate::recipes::follow::Followed;
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
        Ok(Self {
            registry,
            layout,
            scratch,
        })
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
