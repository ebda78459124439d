//! `imagepuller probe`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};
use oci_image::named::NamedReference;
use oci_image::platform::Platform;

use super::documents::DocumentOptions;
use super::{EX_DATAERR, EX_USAGE, exit_code, fail, print};
use crate::error::chain;
use crate::pull::probe::{MAX_TARGETS, Prober, Target};
use crate::pull::visit::Visit;

mod report;

use report::{Report, Row};

/// How many targets are asked about at once.
const AT_ONCE: usize = 8;

/// Say whether pulls would work, without pulling.
///
/// For each IMAGE, else for each entry of the documents: goes the way of a pull up to the answer
/// with the manifest, by the same rules and the same code, and prints a line. Nothing is written or
/// kept. An entry without an image is tried as far as its host allows, which is /v2/ with the
/// entry's account; a name such as ".corp" or "." is that of no single host and not tried.
///
/// IMAGE may have a tag instead of a digest; the line then says the digest, which a pull needs.
/// An image that [image-policy] of --measured refuses does not work: its signatures are asked for
/// and verified as for a pull. Where allow-tags has a scope for a tag, that needs no digest.
///
/// What a document gives by reference (credentials-uri, ca-certs-uri) is fetched as for a pull, and
/// where that is no use here, the line says that it takes a guest.
///
/// Exits with 0 only if all would work; with 65 if a document, a reference or an answer is wrong,
/// with 69 if a host cannot be reached or denies access, or something takes a guest. Of several,
/// the highest.
#[derive(Debug, Args)]
pub struct Probe {
    #[command(flatten)]
    documents: DocumentOptions,
    /// The platform to choose, as os/architecture or os/architecture/variant [default: this
    /// machine's]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,
    /// How long each mirror and registry is given for everything; it is asked once
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// Print one JSON object: works, targets, leftOut
    #[arg(long)]
    json: bool,
    /// Images, such as registry.corp:5000/team/app@sha256:...
    images: Vec<String>,
}

/// Asks and prints.
pub async fn run(arguments: Probe) -> ExitCode {
    let is_json = arguments.json;
    match probe(arguments).await {
        Ok(report) => {
            report.print(is_json);
            ExitCode::from(report.code())
        }
        Err((message, code)) => {
            if is_json {
                print(&serde_json::json!({ "works": false, "error": message }).to_string());
            }
            fail(&message, code)
        }
    }
}

async fn probe(arguments: Probe) -> Result<Report, (String, u8)> {
    let platform = arguments.platform.as_deref().map(Platform::parse);
    let platform =
        platform.transpose().map_err(|error| (format!("--platform: {error}"), EX_USAGE))?;
    if arguments.images.len() > MAX_TARGETS {
        let message = format!("more than {MAX_TARGETS} images; give some of them");
        return Err((message, EX_USAGE));
    }
    if arguments.images.is_empty() && !arguments.documents.is_any() {
        let message = "nothing to try: give --config FILE, or an image".to_owned();
        return Err((message, EX_USAGE));
    }
    let options = &arguments.documents;
    let documents = options.open().map_err(|message| (message, EX_DATAERR))?;
    let visit = Visit::load(documents, platform.unwrap_or_else(Platform::of_guest)).await;
    let visit = visit.map_err(|error| (chain(&error), exit_code(error.kind())))?;
    let prober = Prober::new(visit, Duration::from_secs(arguments.timeout));
    let (targets, left_out) = match arguments.images.is_empty() {
        true => entries(&prober)?,
        false => (arguments.images.into_iter().map(image).collect(), 0),
    };
    let ask = |target: (String, Result<Target, String>)| async {
        let (name, target) = target;
        match target {
            Ok(target) => Row::of(name, &target, prober.probe(&target).await),
            Err(reason) => Row::unreadable(name, reason),
        }
    };
    let rows = stream::iter(targets).map(ask).buffered(AT_ONCE);
    Ok(Report { rows: rows.collect().await, left_out })
}

/// What is tried, with its name for people; or what is wrong with it.
type Named = (String, Result<Target, String>);

fn entries(prober: &Prober) -> Result<(Vec<Named>, usize), (String, u8)> {
    if let Some(reason) = prober.node_error() {
        return Err((chain(&reason), exit_code(reason.kind())));
    }
    let (targets, left_out) = prober.entries();
    if targets.is_empty() {
        let message = "nothing to try: the documents have no entry; give an image".to_owned();
        return Err((message, EX_DATAERR));
    }
    let named = |target: Target| (target.to_string(), Ok(target));
    Ok((targets.into_iter().map(named).collect(), left_out))
}

fn image(text: String) -> Named {
    let target = NamedReference::parse(&text).map(Target::Image);
    (text, target.map_err(|error| error.to_string()))
}
