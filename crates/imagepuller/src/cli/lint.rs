//! `imagepuller lint`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;
use foreign_text::bounded::read_path;
use foreign_text::shown;
use layer_unpack::lint::{Remark, lint};
use oci_image::digest::{Digest, Unverified};
use oci_image::named::NamedReference;
use oci_image::platform::Platform;
use oci_image::search::{Image, Search};
use serde_json::{Value, json};

use super::documents::DocumentOptions;
use super::limits::Limits;
use super::{EX_DATAERR, fail, print};
use crate::blocking::blocking;
use crate::error::{Error, chain};
use crate::pull::examine::{Examined, examine};
use crate::pull::visit::Visit;

/// The longest document of an image.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// How much of a layer is read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Say what in an image other programs read in another way, and what is refused here.
///
/// For people who build images. What is looked at is an OCI image layout, such as `skopeo copy
/// docker://IMAGE oci:DIR` makes, or the file of one layer, compressed or not, or an image in a
/// registry, which is asked as for a pull. Nothing is unpacked or kept. Layers that are encrypted
/// are named and not read.
///
/// With --config (or --measured, or --cdh) it is an image; without, it is one if no file has that
/// name and it has a tag or a digest.
///
/// A line for each remark: the layer, the entry, what is odd about it. Exits with 65 if something
/// is refused or cannot be read, with --strict also if there is any remark, and with 69 if the
/// registry cannot be reached or denies access.
#[derive(Debug, Args)]
pub struct Lint {
    /// An OCI image layout, the file of a layer, or an image such as registry.corp/app@sha256:...
    #[arg(value_name = "PATH|IMAGE")]
    target: PathBuf,
    #[command(flatten)]
    documents: DocumentOptions,
    #[command(flatten)]
    limits: Limits,
    /// The platform to choose, as os/architecture or os/architecture/variant [default: this
    /// machine's]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// Exit with 65 for any remark
    #[arg(long)]
    strict: bool,
    /// Print a JSON array with an object for each layer
    #[arg(long)]
    json: bool,
}

/// What was found in a layer.
struct Layer {
    name: String,
    is_encrypted: bool,
    entries: u64,
    remarks: Vec<Remark>,
}

/// Looks and prints.
pub async fn run(arguments: Lint) -> ExitCode {
    let platform = match arguments.platform.as_deref().map(Platform::parse) {
        None => Platform::of_guest(),
        Some(Ok(platform)) => platform,
        Some(Err(error)) => return fail(&format!("--platform: {error}"), super::EX_USAGE),
    };
    let mut shown = Shown {
        is_json: arguments.json,
        is_strict: arguments.strict,
        objects: Vec::new(),
        is_bad: false,
    };
    let looked = match arguments.is_image() {
        true => of_registry(&arguments, platform, &mut shown).await,
        false => of_files(arguments.target, platform, &mut shown).await,
    };
    match looked {
        Ok(()) => shown.end(),
        Err((reason, code)) => {
            // What was found until then.
            if !shown.objects.is_empty() {
                shown.end();
            }
            fail(&reason, code)
        }
    }
}

impl Lint {
    /// Whether the argument is an image, and not a path.
    fn is_image(&self) -> bool {
        let is_pinned = |text: &str| text.contains(':') && NamedReference::parse(text).is_ok();
        let text = self.target.to_str();
        self.documents.is_any() || !self.target.exists() && text.is_some_and(is_pinned)
    }
}

async fn of_files(
    path: PathBuf,
    platform: Platform,
    shown: &mut Shown,
) -> Result<(), (String, u8)> {
    let found = blocking(move || Ok(layers(&path, platform))).await;
    let found = found.map_err(|error| (chain(&error), super::exit_code(error.kind())))?;
    let layers = found.map_err(|reason| (reason, EX_DATAERR))?;
    layers.into_iter().for_each(|layer| shown.show(layer));
    Ok(())
}

/// Each layer is shown before the next one is fetched.
async fn of_registry(
    arguments: &Lint,
    platform: Platform,
    shown: &mut Shown,
) -> Result<(), (String, u8)> {
    let of_error = |error: Error| (chain(&error), super::exit_code(error.kind()));
    let options = &arguments.documents;
    let documents = options.open().map_err(|reason| (reason, EX_DATAERR))?;
    let text = arguments.target.to_string_lossy();
    let image = NamedReference::parse(&text).map_err(|error| (error.to_string(), EX_DATAERR))?;
    let initdata = options.initdata.clone();
    let visit = Visit::load(documents, options.resources(), initdata, platform);
    let visit = visit.await.map_err(of_error)?;
    let patience = arguments.limits.of_user();
    let examined = examine(&visit, &image, patience, |layer| shown.show(layer.into()));
    examined.await.map_err(of_error)
}

/// What was shown so far.
struct Shown {
    is_json: bool,
    is_strict: bool,
    /// For the array at the end.
    objects: Vec<Value>,
    is_bad: bool,
}

impl Shown {
    fn show(&mut self, layer: Layer) {
        let is_bad = |remark: &Remark| self.is_strict || remark.what.is_refusal();
        self.is_bad |= layer.remarks.iter().any(is_bad);
        match self.is_json {
            true => self.objects.push(layer.json()),
            false => layer.print(),
        }
    }

    fn end(self) -> ExitCode {
        if self.is_json {
            print(&Value::from(self.objects).to_string());
        }
        match self.is_bad {
            true => ExitCode::from(EX_DATAERR),
            false => ExitCode::SUCCESS,
        }
    }
}

/// The layers at `path`, in words for people where there are none.
fn layers(path: &Path, platform: Platform) -> Result<Vec<Layer>, String> {
    if !path.is_dir() {
        return Ok(vec![look(path, path.to_string_lossy().into_owned())?]);
    }
    let image = image(path, platform)?;
    let layers = image.layers.iter().map(|(descriptor, _)| {
        let name = descriptor.digest.to_string();
        if descriptor.encryption().is_some() {
            return Ok(Layer { name, is_encrypted: true, entries: 0, remarks: Vec::new() });
        }
        look(&blob(path, &descriptor.digest), name)
    });
    layers.collect()
}

/// The image of a layout for a platform.
fn image(layout: &Path, platform: Platform) -> Result<Image, String> {
    let index = read(&layout.join("index.json")).map_err(|error| {
        format!("{error}; give an OCI image layout, as by: skopeo copy docker://IMAGE oci:DIR")
    })?;
    let (digest, index) = Unverified::new(index).name_by_content();
    let mut search = Search::new(digest.clone(), platform);
    loop {
        let wanted = search.wanted();
        let text = match wanted.digest == digest {
            true => index.clone(),
            false => read(&blob(layout, &wanted.digest))?,
        };
        let document = wanted.verify(Unverified::new(text)).map_err(|error| {
            let path = blob(layout, &wanted.digest);
            format!("{}: {error}", path.display())
        })?;
        let found = search.receive(document).map_err(|error| error.to_string())?;
        if let Some(image) = found {
            return Ok(image);
        }
    }
}

/// Where a layout has a blob (OCI image layout, "Blobs").
fn blob(layout: &Path, digest: &Digest) -> PathBuf {
    layout.join("blobs").join(digest.to_string().replace(':', "/"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let text = read_path(path, MAX_DOCUMENT_BYTES);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.to_vec())
}

fn look(path: &Path, name: String) -> Result<Layer, String> {
    let failed = |error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(failed)?;
    let mut fault = None;
    let chunks = std::iter::from_fn(|| {
        let mut chunk = vec![0; CHUNK_BYTES];
        match file.read(&mut chunk) {
            Ok(0) => None,
            Ok(length) => {
                chunk.truncate(length);
                Some(Bytes::from(chunk))
            }
            Err(error) => {
                fault = Some(error);
                None
            }
        }
    });
    let (entries, remarks) = lint(chunks);
    match fault {
        Some(error) => Err(failed(error)),
        None => Ok(Layer { name, is_encrypted: false, entries, remarks }),
    }
}

impl From<Examined> for Layer {
    fn from(layer: Examined) -> Self {
        let is_encrypted = layer.found.is_none();
        let (entries, remarks) = layer.found.unwrap_or_default();
        Self { name: layer.blob.to_string(), is_encrypted, entries, remarks }
    }
}

impl Layer {
    fn print(&self) {
        if self.is_encrypted {
            print(&format!("{}: is encrypted and was not read", self.name));
        }
        for Remark { path, what } in &self.remarks {
            let what = what.to_string();
            let what = shown(&what);
            match path {
                Some(path) => print(&format!("{}: {}: {what}", self.name, shown(path).quoted())),
                None => print(&format!("{}: {what}", self.name)),
            }
        }
    }

    fn json(&self) -> Value {
        let remarks = self.remarks.iter().map(|Remark { path, what }| {
            json!({"path": path, "refused": what.is_refusal(), "text": what.to_string()})
        });
        json!({
            "layer": self.name,
            "encrypted": self.is_encrypted,
            "entries": self.entries,
            "remarks": remarks.collect::<Vec<_>>(),
        })
    }
}
