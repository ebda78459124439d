//! What a service says of its pulls: to who asks, and in its log.

use std::process::{Command, Stdio};

use fault_registry::{Action, Content, Image, Layer, Script, What};
use serde_json::Value;
use vm_harness::Scratch;

use crate::linger::{Slow, status};
use crate::support::{Puller, imagepuller, misbehaving, noise, wait_until};

/// The command that shows what a service does.
fn shown(puller: &Puller, more: &[&str]) -> Command {
    let mut command = imagepuller(["status", "--socket"]);
    command.arg(puller.socket()).args(more);
    command.arg("--reasons");
    command.arg(puller.document().with_file_name("reasons"));
    command
}

fn text(puller: &Puller) -> String {
    let output = shown(puller, &[]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// As lines for people and as an object, until the pull is over.
#[test]
fn privileged_a_pull_is_shown_until_it_is_over() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &slow.document, &["--linger", "60"]);
    assert_eq!(text(&puller), "no pull is under way\n");
    let mut first = puller.ask(&slow.image(), "first");
    let host = format!("localhost:{}", slow.registry.address().port());
    let flows = || {
        let shown = text(&puller);
        shown.starts_with(&slow.image())
            && shown.contains(" 1 of 2 layers, ")
            && shown.contains(&format!(" from {host}"))
            && !shown.contains("nobody waits")
    };
    wait_until(|| text(&puller), flows);
    let object: Value =
        serde_json::from_slice(&shown(&puller, &["--json"]).output().unwrap().stdout).unwrap();
    let pull = &object["pulls"][0];
    assert!(object["reasons"].is_array() && pull["receivedBytes"].is_u64(), "{object}");
    assert_eq!(pull["receivedBytes"], pull["sources"][&host], "{object}");

    first.kill().unwrap();
    first.wait().unwrap();
    wait_until(|| text(&puller), || text(&puller).contains(", nobody waits for it"));
    wait_until(|| text(&puller), || text(&puller) == "no pull is under way\n");
}

/// Such a layer comes once and was expected twice: the pull had never all of its layers, nor its
/// bytes.
#[test]
fn privileged_a_layer_that_is_named_twice_counts_once() {
    vm_harness::needs_root!();
    let layer = |name, bytes: u32| Layer::gzip(&[(name, &noise(bytes as usize, bytes))]).unwrap();
    let (large, small) = (layer("large", 1 << 20), layer("small", 5000));
    let bytes = large.size + small.size;
    let mut content = Content::default();
    let digest = Image::new(vec![large, small.clone(), small]).publish(&mut content);
    let slow = Slow::of(content, &digest);
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &slow.document, &["--linger", "0"]);
    let mut pulls = ["first", "second"].map(|name| puller.ask(&slow.image(), name));
    let is_there = |pull: &Value| {
        let (layers, done) = (&pull["layers"], &pull["layersDone"]);
        (layers, done, &pull["bytes"]) == (&2.into(), &1.into(), &bytes.into())
    };
    let both = || {
        let pulls = status(&puller);
        let pulls = pulls.as_array().unwrap();
        pulls.len() == 2 && pulls.iter().all(is_there)
    };
    wait_until(|| status(&puller), both);
    for pull in &mut pulls {
        pull.kill().unwrap();
        pull.wait().unwrap();
    }
}

#[test]
fn privileged_what_is_waited_for_is_shown() {
    vm_harness::needs_root!();
    let busy = Action::Status { code: 503, headers: Vec::new(), body: String::new() };
    let layer = Layer::gzip(&[("a", b"x")]).unwrap();
    let mut content = Content::default();
    let digest = Image::new(vec![layer]).publish(&mut content);
    let script = Script::new().always(What::Layer(0), [busy]);
    let (registry, document) = misbehaving(content, script);
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &document, &[]);
    let host = format!("localhost:{}", registry.address().port());
    let mut pull = puller.ask(&format!("{host}/team/app@{digest}"), "first");
    let waits = || status(&puller)[0]["waitsFor"].is_string();
    wait_until(|| puller.log(), waits);
    let shown = text(&puller);
    let words = "0 of 1 layers, 0 of ";
    let after = format!(", asking again after: {host} answers 503");
    assert!(shown.contains(words) && shown.contains(&after), "{shown}");
    pull.kill().unwrap();
    pull.wait().unwrap();
}

/// A pull of two layers, the second of which a mirror breaks off. Large enough not to be read before
/// the configuration is there.
#[test]
fn privileged_the_log_has_bytes_time_and_rate_of_each_source() {
    vm_harness::needs_root!();
    let layers = [("a", 3000), ("b", 1_200_000)];
    let layers = layers.map(|(name, bytes)| {
        let content = noise(bytes, u32::try_from(bytes).unwrap());
        Layer::gzip(&[(name, &content)]).unwrap()
    });
    let sizes = layers.each_ref().map(|layer| layer.size);
    let mut content = Content::default();
    let digest = Image::new(layers.into()).publish(&mut content);
    let gone = Action::Status { code: 404, headers: Vec::new(), body: String::new() };
    let broken = Action::cut(400_000, fault_registry::End::Close);
    let script = Script::new().once(What::Layer(1), [broken]).always(What::Layer(1), [gone]);
    let (mirror, of_mirror) = misbehaving(content.clone(), script);
    let (registry, of_registry) = misbehaving(content, Script::new());
    let host = |registry: &fault_registry::FaultRegistry| {
        format!("localhost:{}", registry.address().port())
    };
    let (mirror, registry) = (host(&mirror), host(&registry));
    let document = format!(
        "{}mirror = \"https://{mirror}\"\nmirror-fallback = true\n{}",
        of_registry.replace("\"localhost\"", &format!("\"{registry}\"")),
        of_mirror.replace("\"localhost\"", &format!("\"{mirror}\"")),
    );
    let scratch = Scratch::new().unwrap();
    let options = ["--attempts", "2", "--log-format", "json"];
    let puller = Puller::start_with(&scratch, &document, &options);
    let image = format!("{registry}/team/app@{digest}");
    puller.pull(&image, "first");
    let log = puller.log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let line = lines.into_iter().find(|line| line["message"] == "fetched");
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(line["image"], *image);
    assert_eq!(line["bytes"], sizes.iter().sum::<u64>());
    let ms = line["ms"].as_u64().unwrap().max(1);
    let sources = line["sources"].as_str().unwrap();
    let mut by_host = std::collections::BTreeMap::new();
    for source in sources.split(", ") {
        let words: Vec<_> = source.split(' ').collect();
        let [host, bytes, "bytes", "at", rate, "bytes/s"] = words[..] else {
            panic!("{sources}");
        };
        let bytes: u64 = bytes.parse().unwrap();
        assert_eq!(rate.parse::<u64>().unwrap(), bytes * 1000 / ms, "{line}");
        by_host.insert(host.to_owned(), bytes);
    }
    assert_eq!(by_host[&registry], sizes[1], "{sources}");
    assert!(by_host[&mirror] > 100_000, "{sources}");
}

#[test]
fn privileged_a_log_level_hides_what_is_less_grave() {
    vm_harness::needs_root!();
    let busy = Action::Status { code: 503, headers: Vec::new(), body: String::new() };
    for (level, begins, again) in
        [("error", 0, 0..=0), ("warn", 0, 0..=0), ("info", 1, 1..=1), ("debug", 1, 2..=9)]
    {
        let script = Script::new().times(What::Manifest, 1..=3, [busy.clone()]);
        let mut content = Content::default();
        let layer = Layer::gzip(&[("a", b"x")]).unwrap();
        let digest = Image::new(vec![layer]).publish(&mut content);
        let broken = Action::Body(fault_registry::Bytes::Flipped);
        let script = script.always(What::Layer(0), [broken]);
        let (registry, document) = misbehaving(content, script);
        let scratch = Scratch::new().unwrap();
        let puller = Puller::start_with(&scratch, &document, &["--log-level", level]);
        let port = registry.address().port();
        puller.refuse(&format!("localhost:{port}/team/app@{digest}"), 65, &["not the blob"]);
        let log = puller.log();
        let count = |words: &str| log.matches(words).count();
        assert_eq!(count("pull begins"), begins, "{level}:\n{log}");
        assert!(again.contains(&count("asking again")), "{level}:\n{log}");
        assert_eq!(count("failed to pull"), 1, "{level}:\n{log}");
    }
    let mut unknown = imagepuller(["serve", "--log-level", "trace"]);
    let unknown = unknown.stderr(Stdio::null()).status().unwrap();
    assert_eq!(unknown.code(), Some(64));
}
