//! The commands of the pages are run as they are printed. After those of a recipe of
//! `docs/recipes` the guest's puller pulls what the page promises.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod accounts;
pub mod clouds;
pub mod commands;
pub mod encrypted;
pub mod follow;
pub mod front;
pub mod mirrors;
pub mod page;
pub mod registries;
pub mod values;
pub mod world;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use page::Page;
use world::{each, each_way};

/// A test for each page: the page, the test's name, and what surrounds the node.
macro_rules! recipes {
    ($($page:literal $test:ident $play:path;)*) => {
        const FOLLOWED: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() -> Result<()> {
                each_way(stringify!($test), |way| $play(&Page::read($page)?, way))
            }
        )*
    };
}

recipes! {
    "image-pull-secret" privileged_image_pull_secret accounts::image_pull_secret;
    "ecr" privileged_ecr clouds::ecr;
    "gar" privileged_gar clouds::gar;
    "acr" privileged_acr clouds::acr;
    "harbor" privileged_harbor mirrors::harbor;
    "artifactory" privileged_artifactory mirrors::artifactory;
    "gitlab" privileged_gitlab accounts::gitlab;
    "k3s" privileged_k3s mirrors::k3s;
    "air-gapped" privileged_air_gapped mirrors::air_gapped;
    "corporate-proxy" privileged_corporate_proxy mirrors::corporate_proxy;
    "key-broker" privileged_key_broker accounts::key_broker;
    "encrypted-image" privileged_encrypted_image encrypted::secret;
    "encrypted-image-broker" privileged_encrypted_image_broker encrypted::broker;
}

#[test]
fn every_page_has_the_form_and_a_test_and_is_in_the_index() -> Result<()> {
    let index = page::index()?;
    let names = page::names()?;
    for name in &names {
        Page::read(name)?;
        let is_listed = index.contains(&format!("]({name}.md)"));
        ensure!(is_listed, "{name} is not in the index");
    }
    let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
    let followed: BTreeSet<_> = FOLLOWED.iter().copied().collect();
    assert_eq!(names, followed, "each page needs a test");
    Ok(())
}

#[test]
fn privileged_commands_of_the_other_pages() -> Result<()> {
    let pages = commands::pages()?;
    ensure!(pages.len() > 5, "only {pages:?} have commands");
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    each("privileged_commands_of_the_other_pages", &pages, commands::follow)
}
