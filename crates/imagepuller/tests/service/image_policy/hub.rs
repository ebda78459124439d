//! Policies as Confidential Containers write them, in a measured `cdh.toml`.

use std::fs;

use confidential_fixtures::{DataHub, Vault};
use serde_json::json;

use super::place::Place;
use crate::support::Puller;

impl Place {
    /// The same with a guest whose owner has this file for the data hub.
    fn with_hub(mut self, text: &str) -> Self {
        let file = self.site.scratch.path().join("cdh.toml");
        fs::write(&file, text).unwrap();
        let document = self.site.document("localhost");
        let more = ["--cdh", file.to_str().unwrap(), "--attempts", "1"];
        self.puller = Puller::start_with(&self.site.scratch, &document, &more);
        self
    }
}

/// The policy of a hub: keys as they are, no identity, which compares the repository.
fn coco(key: &str) -> String {
    let requirement = json!([{"type": "sigstoreSigned", "keyData": key}]);
    json!({"default": requirement, "transports": {}}).to_string()
}

#[test]
fn privileged_the_policy_of_a_measured_hub_judges_pulls() {
    vm_harness::needs_root!();
    let place = Place::start();
    let team = fs::read_to_string(place.team.public()).unwrap();
    let text = coco(&team);
    let place = place.with_hub(&format!("[image]\nimage_security_policy = '''{text}'''\n"));
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    place.puller.refuse(&image, 65, &["the default asks for", "no signature was found"]);
    place.sign(&place.other, &digest, &name, "team/app");
    place.puller.refuse(&image, 65, &["is by that key"]);
    place.sign(&place.team, &digest, &place.name("team/old"), "team/app");
    place.puller.refuse(&image, 65, &["is for", "team/old"]);
    assert_eq!(place.layers_asked("team/app"), 0, "nothing was fetched");
    place.sign(&place.team, &digest, &name, "team/app");
    place.puller.pull(&image, "signed");
    // The owner's own section holds in its place, as a whole.
    place.measured("[image-policy]\ntext = '{\"default\":[{\"type\":\"reject\"}]}'\n");
    place.puller.refuse(&image, 65, &["the default rejects it"]);
}

#[test]
fn privileged_the_policy_that_a_measured_hub_refers_to_judges_pulls() {
    vm_harness::needs_root!();
    let place = Place::start();
    let [team, other] =
        [&place.team, &place.other].map(|key| fs::read_to_string(key.public()).unwrap());
    let vault = Vault::new().with("default/policy/images", coco(&team));
    let hub = DataHub::start(&place.site.scratch.path().join("cdh.sock"), vault).unwrap();
    // Of two the reference counts, whatever is in the other.
    let text = format!(
        "[image]\nimage_security_policy = '''{}'''\nimage_security_policy_uri = \
        \"kbs:///default/policy/images\"\n",
        coco(&other)
    );
    let place = place.with_hub(&text);
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    place.measured(&format!("[resources]\nsource = \"{}\"\n", hub.source()));
    place.sign(&place.other, &digest, &place.name("team/app"), "team/app");
    place.puller.refuse(&image, 65, &["is by that key"]);
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    place.puller.pull(&image, "signed");
}
