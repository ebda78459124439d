//! The README shows an error message. This is what a guest's pull answers in that case.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code: a failed step should stop the test where it is"
)]

use std::path::Path;
use std::sync::Arc;

use pull_route::{Account, PlacedDocument, Settings};
use registry_client::error::Error;
use registry_config::{Document, RegistryHost};

/// What the README says of an image of `registry.corp` and an entry `corp`.
#[test]
fn the_readme_shows_what_a_pull_answers() {
    let text = "[registries.\"corp\"]\nusername = \"robot\"\npassword = \"example\"\n";
    let placed = |text: &str, path: &str, is_present| PlacedDocument {
        document: Arc::new(Document::parse(text.as_bytes()).unwrap().document),
        path: path.into(),
        is_present,
    };
    let settings = Settings::new(
        placed("", "/run/measured-cfg/imagepuller.toml", false),
        placed(text, "/run/insecure-cfg/imagepuller.toml", true),
    );
    let host = RegistryHost::parse("registry.corp").unwrap();
    let plan = settings.plan(&host, "team/app").unwrap();
    let Account::Anonymous(reason) = plan.registry().account() else {
        panic!("{:?}", plan.registry().account());
    };
    let error = Error::no_credentials(&host.to_string(), reason);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&error.to_string()), "{error}");
}
