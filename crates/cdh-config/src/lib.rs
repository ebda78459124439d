//! What the data hub's measured configuration means as our measured document.
//!
//! Owners of CoCo guests write `cdh.toml` into their initdata, or kernel parameters. [`read`] says
//! what both mean for image pulls: a measured document, or every reason why there is none. The
//! guest acts by it, and `kata-configdev import cdh` prints it. What has no counterpart is never
//! left out in silence. `docs/credentials.md` has the table.
//!
//! Not here: where the texts come from, and what happens beside a measured `imagepuller.toml`
//! (`registry_config::Document::complete`).
//!
//! - `image`, `parameters`: the keys of `[image]`, and the kernel parameters that stand in for it.
//! - [`registries_conf`]: the tables of a registries.conf, for every engine that reads one.
//!   `registries`: what the hub does by them.
//! - `owner`: what was read. `document`: what it means. `finding`: what is wrong with it.

mod document;
mod finding;
mod image;
mod owner;
mod parameters;
mod registries;
pub mod registries_conf;

#[cfg(test)]
mod tests;

use foreign_text::toml::Tree;
use registry_config::Document;

use finding::Findings;
pub use finding::{Finding, MAX_FINDINGS, Place, lines};
use owner::Owner;

/// The longest `cdh.toml`. It bounds the memory of the TOML parser, a kilobyte for two bytes.
pub const MAX_CDH_BYTES: usize = 128 << 10;

/// The longest line of kernel parameters: many times what any architecture's kernel takes.
pub const MAX_PARAMETERS_BYTES: usize = 64 << 10;

/// What was meant.
#[derive(Clone, Debug, Default)]
pub struct Meaning {
    /// The document; the default where nothing is said about pulls.
    pub document: Document,
    /// What is understood, and still worth knowing.
    pub notes: Vec<Finding>,
    /// Whether the file has `[image]` or `[kbc]`, as the hub's do.
    pub is_of_hub: bool,
}

/// Says what `cdh.toml`, if there is one, and the kernel's parameters mean.
///
/// # Errors
///
/// Everything that has no counterpart, up to [`MAX_FINDINGS`]; never a value of the texts.
pub fn read(cdh: Option<&[u8]>, parameters: &str) -> Result<Meaning, Vec<Finding>> {
    let mut findings = Findings::default();
    let mut owner = Owner::default();
    match cdh {
        Some(text) if text.len() > MAX_CDH_BYTES => {
            let rule = format!("the file has more than {MAX_CDH_BYTES} bytes");
            findings.problem(Place::of_file(), rule);
        }
        Some(text) => match Tree::parse(text) {
            Ok(tree) => image::read_file(tree.table(), &mut owner, &mut findings),
            Err(error) => findings.problem(Place::line(error.line), error.message),
        },
        None => {}
    }
    if !owner.has_image {
        parameters::read(parameters, &mut owner, &mut findings);
    }
    findings.checked()?;
    let draft = document::draft(&owner, &mut findings);
    findings.checked()?;
    let mut document = draft.read(&mut findings);
    findings.checked()?;
    if let Some(policy) = &mut document.image_policy {
        policy.is_of_cdh = true;
    }
    let is_of_hub = owner.has_image || owner.has_kbc;
    Ok(Meaning { document, notes: findings.notes, is_of_hub })
}
