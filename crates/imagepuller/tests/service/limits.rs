//! How many layers a pull opens, and what ends one whose registry sends nothing.

use std::time::{Duration, Instant};

use fault_registry::{Action, Content, End, FaultRegistry, Image, Layer, Script, What};
use vm_harness::Scratch;

use crate::support::{Puller, misbehaving, noise, wait_until};

/// An image whose layers are too large to be read whole, from a registry that sends so many
/// bytes of each and then nothing.
fn stalling(layers: usize, bytes: usize) -> (FaultRegistry, String, String) {
    let layers = (0..layers).map(|number| {
        let content = noise(1_200_000, u32::try_from(number).unwrap());
        Layer::gzip(&[("noise", &content)]).unwrap()
    });
    let mut content = Content::default();
    let digest = Image::new(layers.collect()).publish(&mut content);
    let stall = Action::cut(bytes, End::Stall);
    let script = Script::new().always(What::AnyLayer, [stall]);
    let (registry, document) = misbehaving(content, script);
    let image = format!("localhost:{}/team/app@{digest}", registry.address().port());
    (registry, document, image)
}

/// How often any layer was asked for.
fn asked(registry: &FaultRegistry) -> usize {
    let requests = registry.requests();
    let layers = requests.iter();
    layers.filter(|request| matches!(request.what, What::Layer(_))).count()
}

/// Of large layers those that are unpacked and as many as there are lanes.
#[test]
fn privileged_two_layers_and_two_besides_are_opened() {
    vm_harness::needs_root!();
    let (registry, document, image) = stalling(8, 1000);
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &document, &[]);
    let mut pull = puller.ask(&image, "first");
    wait_until(|| puller.log(), || asked(&registry) >= 4);
    // One that was more would come by now.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(asked(&registry), 4);
    pull.kill().unwrap();
    pull.wait().unwrap();
}

/// The defaults would ask for twenty minutes, and notice after half a minute that nothing comes.
#[test]
fn privileged_attempts_and_stall_timeout_end_a_pull() {
    vm_harness::needs_root!();
    let (registry, document, image) = stalling(1, 0);
    let scratch = Scratch::new().unwrap();
    let options = ["--stall-timeout", "1", "--attempts", "2"];
    let puller = Puller::start_with(&scratch, &document, &options);
    let begun = Instant::now();
    puller.refuse(&image, 69, &["stood still for 1 s"]);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    assert_eq!(asked(&registry), 2);
}
