//! The same images with every layer encrypted by `skopeo`, for one RSA key of the corpus.
//!
//! Encrypting draws new keys and counters, so it is done once for each image and found again by its
//! tag.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::corpus::{self, Image, Layer};
use crate::measure::checked;
use crate::server::Server;

/// As far as it is of interest here.
#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// The private key, PEM.
pub fn key() -> PathBuf {
    corpus::directory().join("key.pem")
}

/// Makes the key and the encrypted images that are not there; gives them as they are in the
/// registry, read once.
pub fn push(images: &[Image], server: &Server) -> Result<Vec<Image>> {
    let public = corpus::directory().join("key.pub.pem");
    if !public.exists() {
        let bits = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
        checked(Command::new("openssl").args(bits).arg("-out").arg(key()))?;
        let mut derive = Command::new("openssl");
        derive.args(["pkey", "-pubout", "-in"]).arg(key());
        checked(derive.arg("-out").arg(&public))?;
    }
    images
        .iter()
        .map(|image| {
            // Their tag is that of an encrypted image, whatever is in it.
            let target = server.tagged(&image.encrypted(Vec::new(), Vec::new()));
            let encrypted = match read(image, server, &target) {
                Ok(encrypted) => encrypted,
                Err(_) => {
                    eprintln!("{}: encrypted into the registry", image.title());
                    let mut skopeo = skopeo(&["copy", "--quiet"]);
                    skopeo
                        .args(["--src-tls-verify=false", "--dest-tls-verify=false"])
                        .arg("--encryption-key")
                        .arg(format!("jwe:{}", public.display()))
                        .arg(format!("docker://{}", server.tagged(image)))
                        .arg(format!("docker://{target}"));
                    checked(&mut skopeo)?;
                    read(image, server, &target)?
                }
            };
            corpus::warm(&encrypted, server)?;
            Ok(encrypted)
        })
        .collect()
}

/// The encrypted image at `target`, which must be that of `image`: a corpus of other packages has
/// other layers.
fn read(image: &Image, server: &Server, target: &str) -> Result<Image> {
    let output = skopeo(&["inspect", "--raw", "--tls-verify=false"])
        .arg(format!("docker://{target}"))
        .stdin(Stdio::null())
        .output()
        .context("failed to start skopeo")?;
    ensure!(output.status.success(), "{target} is not there");
    let manifest: Manifest = serde_json::from_slice(&output.stdout)?;
    ensure!(manifest.layers.len() == image.layers.len(), "other layers");
    let layers = manifest.layers.into_iter().zip(&image.layers);
    let layers = layers
        .map(|(found, plain)| {
            // AES in counter mode keeps the length.
            let is_ours = found.media_type.ends_with("+encrypted") && found.size == plain.size;
            ensure!(is_ours, "{target} is not {} encrypted", image.title());
            Ok(Layer { blob: server.blob(&found.digest), digest: found.digest, ..plain.clone() })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(image.encrypted(output.stdout, layers))
}

fn skopeo(arguments: &[&str]) -> Command {
    let mut skopeo = Command::new("skopeo");
    skopeo.arg("--insecure-policy").args(arguments);
    skopeo
}
