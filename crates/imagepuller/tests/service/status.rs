//! What a service says of its pulls: to who asks, and in its log.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use fault_registry::{Action, Content, Image, Layer, Script, What};
use rustix::process::Signal;
use serde_json::Value;
use vm_harness::Scratch;

use crate::linger::{Slow, status};
use crate::support::{Puller, imagepuller, misbehaving, noise, signal, wait_until};

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

/// Somebody at a terminal had to ask again and again.
#[test]
fn privileged_a_pull_is_followed_to_its_end() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &slow.document, &["--linger", "60"]);
    assert_eq!(text(&puller), "no pull is under way\n");
    let mut first = puller.ask(&slow.image(), "first");
    wait_until(|| puller.log(), || slow.asked_for(0) == 1 && slow.asked_for(1) == 1);
    let follow = |name: &str, more: &[&str]| {
        let path = scratch.path().join(name);
        let mut command = shown(&puller, &[&["--follow"], more].concat());
        let process = command.stdout(File::create(&path).unwrap()).spawn().unwrap();
        (process, path)
    };
    let ((mut lines, path), (mut objects, json)) =
        (follow("lines", &[]), follow("json", &["--json"]));
    let (mut stopped, _) = follow("stopped", &[]);
    let said = |path: &std::path::Path| fs::read_to_string(path).unwrap();
    let host = format!("localhost:{}", slow.registry.address().port());
    let flows = || said(&path).matches(&format!(" from {host}")).count() >= 2;
    wait_until(|| said(&path), flows);
    assert!(!said(&path).contains("nobody waits"), "{}", said(&path));
    signal(&stopped, Signal::INT);
    assert_eq!(stopped.wait().unwrap().code(), Some(130));

    first.kill().unwrap();
    first.wait().unwrap();
    wait_until(|| said(&path), || said(&path).contains(", nobody waits for it"));
    assert_eq!(lines.wait().unwrap().code(), Some(0));
    assert_eq!(objects.wait().unwrap().code(), Some(0));
    let text = said(&path);
    let (image, lines) = (slow.image(), text.lines().collect::<Vec<_>>());
    let end =
        [format!("{image}: over; the service's log says how"), "no pull is under way".to_owned()];
    assert_eq!(lines[lines.len() - 2..], end);
    let of_pull = &lines[..lines.len() - 2];
    assert!(of_pull.iter().all(|line| line.starts_with(&image)), "{text}");
    let layers = " 1 of 2 layers, ";
    assert!(of_pull.iter().any(|line| line.contains(layers)), "{text}");
    assert!(of_pull.windows(2).all(|pair| pair[0] != pair[1]), "{text}");

    let received = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap();
        assert!(object["reasons"].is_array(), "{object}");
        let pull = &object["pulls"][0];
        pull["sources"][&host].as_u64().inspect(|bytes| {
            assert_eq!(pull["receivedBytes"], *bytes, "{pull}");
        })
    };
    let json = said(&json);
    let bytes: Vec<_> = json.lines().map(received).collect();
    assert_eq!(bytes.last(), Some(&None), "{json}");
    let bytes: Vec<_> = bytes.into_iter().flatten().collect();
    assert!(bytes.len() > 2 && bytes.is_sorted(), "{json}");
}

/// Such a layer comes once and was expected twice: the pull had never all of its layers, nor its
/// bytes. Of two pulls of one image the end of the first was not said.
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

    let lines = scratch.path().join("lines");
    let mut follow = shown(&puller, &["--follow"]);
    let mut follow = follow.stdout(File::create(&lines).unwrap()).spawn().unwrap();
    let said = || fs::read_to_string(&lines).unwrap();
    wait_until(said, || said().matches(" s, 1 of 2 layers").count() >= 2);
    let over = || said().matches(": over; ").count();
    for (ended, pull) in pulls.iter_mut().enumerate() {
        assert_eq!(over(), ended, "{}", said());
        pull.kill().unwrap();
        pull.wait().unwrap();
        wait_until(said, || over() == ended + 1);
    }
    assert_eq!(follow.wait().unwrap().code(), Some(0));
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
