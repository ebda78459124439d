//! Images that contradict themselves, served faithfully.

use fault_registry::{Image, Layer, What};
use imagepuller::error::Kind::{Data, Exhausted};
use serde_json::json;

use crate::row::{Row, harmless, refused, script};
use crate::stage::usual_image;

pub fn rows() -> Vec<Row> {
    vec![
        refused("the plain bytes are others", script(), Data, &["layer"]).image(altered(|image| {
            image.config["rootfs"]["diff_ids"][0] = json!(format!("sha256:{}", "0".repeat(64)));
        })),
        refused("fewer plain digests than layers", script(), Data, &["configuration"]).image(
            altered(|image| {
                image.config["rootfs"]["diff_ids"].as_array_mut().unwrap().pop();
            }),
        ),
        refused("a layer larger than its descriptor", script(), Data, &["of a blob that has"])
            .image(altered(|image| {
                image.layers[0].size -= 1;
            })),
        refused("a layer smaller than its descriptor", script(), Data, &["of a blob that has"])
            .image(altered(|image| {
                image.layers[0].size += 1;
            })),
        refused("a config smaller than its descriptor", script(), Data, &["configuration"])
            .image(altered(|image| image.config_size = Some(1 << 20)))
            .asks(What::Config, 1),
        refused("a layer larger than the store", script(), Exhausted, &["free"])
            .image(altered(|image| image.layers[0].size = 1 << 40))
            .asks(What::Layer(0), 0),
        refused("a layer that is not compressed", script(), Data, &["layer"]).image(altered(
            |image| {
                image.layers[0].bytes = vec![7; 1000];
                image.layers[0].size = 1000;
            },
        )),
        refused("a layer that is no archive", script(), Data, &["layer"])
            .image(Image::new(vec![Layer::gzip_of(&[7; 10_000]).unwrap()])),
        refused("a layer that ends in the middle", script(), Data, &["layer"]).image(altered(
            |image| {
                image.layers[0].bytes.truncate(30_000);
                image.layers[0].size = 30_000;
            },
        )),
        refused("a bomb", script(), Exhausted, &["free"]).image(Image::new(vec![bomb(100 << 20)])),
        refused("a bomb that is no archive", script(), Data, &["layer"])
            .image(Image::new(vec![Layer::gzip_of(&vec![0xff; 64 << 20]).unwrap()])),
        // Nothing of it reaches the store, and what it costs is time.
        harmless("a bomb after the end of the archive", script())
            .image(Image::new(vec![Layer::gzip_of(&vec![0; 128 << 20]).unwrap()])),
    ]
}

fn altered(change: impl FnOnce(&mut Image)) -> Image {
    let mut image = usual_image();
    change(&mut image);
    image
}

/// A file of so many zeros, which get a thousand times smaller.
fn bomb(size: usize) -> Layer {
    Layer::gzip(&[("zeros", &vec![0; size])]).unwrap()
}
