//! Pulls by what the owner pinned, against a real registry whose tags move.

use std::fs;

use confidential_fixtures::{AttestationAgent, EventLog};
use registry_config::Document;
use vm_harness::layout;

use crate::support::{Puller, Site};

#[test]
fn privileged_a_tag_is_what_the_owner_pinned_whatever_the_registry_has_under_it() {
    vm_harness::needs_root!();
    let site = Site::start();
    let document = site.document("localhost");
    let puller = Puller::start(&site.scratch, Some(&document));
    let directory = puller.document().parent().unwrap().to_owned();
    let agent = AttestationAgent::start(&directory.join("aa.sock"), EventLog::Kept).unwrap();
    let measured = |text: &str| puller.measure(text);
    let pinned = site.layout.manifest.clone();
    // Gives the digest of what runs.
    let pull = |image: &str, bundle: &str| {
        let output = puller.request(image, bundle);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let host = format!("localhost:{}", site.registry.port());
    let (name, tag) = (format!("{host}/team/app"), format!("{host}/team/app:1"));

    // The tag is moved to another image.
    let other = site.scratch.path().join("other");
    let other = layout::of_archives(&other, Vec::new()).unwrap();
    site.push(&other);
    assert_ne!(other.manifest, pinned);
    let [of_pinned, of_other] = [&pinned, &other.manifest].map(|it| format!("{name}@{it}"));

    let before = site.registry.statuses("GET /v2/team/app/manifests/1 ").len();
    puller.refuse(&tag, 65, &["no digest", &format!("[pins] \"{tag}\" = ")]);
    measured(&format!("[pins]\n\"{tag}\" = \"{pinned}\"\n"));
    for (bundle, image) in [("tag", &tag), ("both", &format!("{tag}@{pinned}"))] {
        assert_eq!(pull(image, bundle), pinned);
        let motd = fs::read(puller.rootfs(bundle).join("etc/motd")).unwrap();
        assert_eq!(motd, b"pulled inside the guest\n");
    }
    let asked = site.registry.statuses("GET /v2/team/app/manifests/1 ");
    assert_eq!(asked.len(), before, "what is under the tag does not matter");
    // As it was asked for, with the manifest that runs.
    let record = Document::parse(document.as_bytes()).unwrap().document.record();
    let log = agent.log();
    assert_eq!(log[0], format!(r#"kata-configdev LoadDocument {{"document":"{record}"}}"#));
    let domain = "github.com/confidential-containers PullImage";
    assert_eq!(log[1], format!(r#"{domain} {{"image":"{tag}", "digest":"{pinned}"}}"#));

    let names = ["pins", &tag, &pinned, &other.manifest];
    puller.refuse(&format!("{tag}@{}", other.manifest), 65, &names);
    puller.refuse(&format!("{name}:2"), 65, &["no digest"]);
    // Without `only-pins` the host can drop the tag.
    puller.pull(&of_other, "dropped");

    measured(&format!("only-pins = true\n[pins]\n\"{tag}\" = \"{pinned}\"\n"));
    assert_eq!(pull(&tag, "only"), pinned);
    puller.pull(&of_pinned, "only-digest");
    // It is in the store by now, which is no way around.
    puller.refuse(&of_other, 65, &["only-pins = true", &other.manifest]);
    for image in [
        format!("{name}:2"),
        format!("{name}:2@{}", other.manifest),
        format!("{name}:2@{pinned}"),
        format!("{host}/team/tool@{pinned}"),
        format!("docker.io/team/app:1@{pinned}"),
    ] {
        puller.refuse(&image, 65, &["only-pins = true", "pin it to"]);
    }

    // What the owner wrote is no secret of a registry's.
    let absent = format!("sha256:{}", "0".repeat(64));
    measured(&format!("[pins]\n\"{tag}\" = \"{absent}\"\n"));
    puller.refuse(&tag, 69, &["404 Not Found", &absent]);

    measured(&format!("[pins]\n\"{name}:1\" = \"sha256:1\"\n"));
    puller.refuse(&tag, 65, &["measured.toml", "line 2", "hexadecimal digits"]);
    measured("");
    puller.configure(&format!("only-pins = false\n{document}"));
    puller.refuse(&of_pinned, 65, &["only-pins: belongs in the measured document"]);
}
