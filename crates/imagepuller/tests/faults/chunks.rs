//! Chunked transfer coding, right and wrong.

use What::{Layer, Manifest};
use fault_registry::{Action, Chunked, What};
use imagepuller::error::Kind::Unreachable;

use crate::row::{Row, harmless, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let layer = |kind| script().always(Layer(0), [Action::Chunked(kind)]);
    let manifest = |kind| script().always(Manifest, [Action::Chunked(kind)]);
    vec![
        pulled("a layer in chunks", layer(Chunked::Plain)).ranges(&[0]),
        pulled("a manifest in chunks", manifest(Chunked::Plain)).asks(Manifest, 1),
        pulled("a layer in chunks of a byte", layer(Chunked::Tiny)).ranges(&[0]),
        pulled("chunks with extensions", manifest(Chunked::Extensions)).asks(Manifest, 1),
        pulled("chunks with trailers", manifest(Chunked::Trailers)).asks(Manifest, 1),
        harmless("a chunk with a mebibyte of extension", layer(Chunked::LongExtension)),
        harmless("ten thousand trailers", layer(Chunked::ManyTrailers)),
        refused(
            "ten thousand trailers of a manifest",
            manifest(Chunked::ManyTrailers),
            Unreachable,
            &["broke off"],
        ),
        refused(
            "chunks larger than numbers",
            layer(Chunked::HugeSize),
            Unreachable,
            &["broke off"],
        ),
        refused("chunks without a number", manifest(Chunked::BadSize), Unreachable, &["broke off"]),
        refused(
            "a manifest in chunks without an end",
            manifest(Chunked::MissingEnd),
            Unreachable,
            &["3 attempts"],
        ),
        pulled(
            "a layer in chunks without an end, once",
            script().once(Layer(0), [Action::Chunked(Chunked::MissingEnd)]),
        ),
        harmless("chunks and a length", layer(Chunked::AndLength)),
        harmless("a manifest with chunks and a length", manifest(Chunked::AndLength)),
    ]
}
