//! The real service, patient as it is, between registries that misbehave and a caller who asks
//! again.

use std::fs;

use What::{Layer, Manifest};
use fault_registry::{Action, Bytes, End, RangeLie, What};
use imagepuller::error::Kind;
use imagepuller::error::Kind::{Data, Denied, Unreachable};

use crate::row::{Outcome, Row, TOKEN, fails, pulled, refused, script};
use crate::stage::{Stage, noise};
use crate::support::Puller;

/// One image from one bad registry after another. Nothing wrong that a bad one sent may reach the
/// next pull; the other layer, which is right, may be there already.
fn rows() -> Vec<Row> {
    let flipped = || [Action::Body(Bytes::Flipped)];
    let endless = [Action::Body(Bytes::Endless)];
    let cut = || [Action::cut(1000, End::Reset)];
    vec![
        fails("no manifest", Manifest, 404, Denied, &["404"]),
        fails("another manifest", Manifest, flipped(), Data, &["is not the content"]),
        fails("an endless layer", Layer(0), endless, Data, &["more bytes"]),
        fails("another layer", Layer(0), flipped(), Data, &["layer"]),
        refused(
            "another rest",
            {
                let other = [Action::Range(RangeLie::OtherBytes)];
                script().once(Layer(0), cut()).times(Layer(0), 2.., other)
            },
            Data,
            &["layer"],
        ),
        // The caller has 20 minutes, and five attempts were once all that it got of them.
        pulled("a registry that restarts", script().times(Manifest, ..=5, [Action::status(503)]))
            .asks(Manifest, 6),
        pulled("a layer that breaks off", script().once(Layer(0), cut())),
        pulled(
            "layers that are there already",
            script().always(What::AnyLayer, [Action::status(500)]),
        )
        .asks(Layer(0), 0),
    ]
}

/// Plays them with one service.
pub fn play() {
    let stage = Stage::new();
    let puller = Puller::start_with(stage.scratch(), "", &[]);
    for (number, row) in rows().into_iter().enumerate() {
        let cast = stage.cast(&row);
        // What is stored needs no registry, and the images of some rows are the same.
        puller.forget_documents();
        puller.configure(&cast.document);
        let bundle = format!("bundle-{number}");
        match &row.outcome {
            Outcome::Refused { kind, words } => puller.refuse(&cast.image, code(*kind), words),
            _ => {
                let output = puller.request(&cast.image, &bundle);
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}: {error}", row.name);
                let first = fs::read(puller.rootfs(&bundle).join("first")).unwrap();
                assert_eq!(first, noise(60_000, 1), "{}", row.name);
            }
        }
        cast.check_requests(&row).unwrap_or_else(|error| panic!("{}: {error}", row.name));
        assert!(!puller.log().contains(TOKEN), "{}: a secret was logged", row.name);
    }
    play_deadline(&stage, &puller);
}

/// A caller's deadline that passes while a registry is waited for.
fn play_deadline(stage: &Stage, puller: &Puller) {
    let busy = Action::status(503);
    let row = fails("a busy registry", Manifest, [busy], Unreachable, &[]);
    let cast = stage.cast(&row);
    puller.forget_documents();
    puller.configure(&cast.document);
    // A slow machine may not get to the registry in two seconds.
    for seconds in ["2", "10", "60"] {
        let mut client = puller.client(&cast.image, "late");
        let output = client.args(["--timeout", seconds]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{error}");
        let passed = format!("deadline of {seconds} s passed before the image was there");
        assert!(error.contains(&passed), "{error}");
        if error.contains("; the last attempt: ") {
            return assert!(error.contains(" answers 503 "), "{error}");
        }
    }
    panic!("the last attempt is not said");
}

/// The exit code of `imagepuller request` for a failure of this kind.
fn code(kind: Kind) -> i32 {
    match kind {
        Kind::Request | Kind::Data => 65,
        Kind::Denied | Kind::Unreachable | Kind::Exhausted => 69,
        Kind::Internal => 70,
    }
}
