//! `[image-policy]` of a measured document, as the commands that read one show it.

use std::collections::BTreeMap;

use image_policy::section;
use image_policy::{Conditions, Name, Policy};
use registry_config::{Document, ImagePolicy, PolicySource, Problems};
use serde::Serialize;

use super::told;
use crate::cli::finding::{Finding, of_problems};

/// The measured document in the `[data]` of initdata.
const DOCUMENT: &str = "imagepuller.toml";

/// What the section says of an image, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct Told {
    /// Where the policy is, where it cannot be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen: Option<String>,
    /// Whether one of the scopes is enough.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    one_of: bool,
    /// The scopes that decide.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<Scope>,
    /// Whether the tag may be resolved; only of an image without a digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_allowed: Option<bool>,
    /// Why the tag is not resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    /// Why the image does not run, whatever signatures it has.
    #[serde(skip)]
    pub refused: Option<String>,
}

#[derive(Debug, Serialize)]
struct Scope {
    scope: String,
    asks_for: Vec<String>,
}

/// Warnings about the section of a measured document.
///
/// # Errors
///
/// The problems of the section; in the guest every pull fails with them.
pub fn warnings(document: &Document) -> Result<Vec<Finding>, Problems> {
    let Some(written) = &document.image_policy else {
        return Ok(Vec::new());
    };
    let (_, policy) = section::read(written)?;
    Ok(policy.map_or(Vec::new(), |policy| remarks(written, &policy)))
}

/// What of the section cannot be checked here.
pub fn unseen(document: &Document) -> Option<Finding> {
    let written = document.image_policy.as_ref()?;
    place_of(written).map(|place| finding(written, format!("{place}; it was not checked")))
}

/// What the section says of an image.
///
/// # Errors
///
/// As those of [`warnings`].
pub fn explain(written: &ImagePolicy, image: &Name) -> Result<Told, Problems> {
    let (conditions, policy) = section::read(written)?;
    let Some(policy) = policy else {
        let digest = image.reference().digest();
        let listed = digest.filter(|digest| conditions.refuses(digest));
        return Ok(Told {
            unseen: place_of(written),
            one_of: false,
            scopes: Vec::new(),
            tag_allowed: None,
            tag: None,
            refused: listed.map(|digest| format!("refuse of [image-policy] lists {digest}")),
        });
    };
    Ok(by_policy(&policy, &conditions, image))
}

fn by_policy(policy: &Policy, conditions: &Conditions, image: &Name) -> Told {
    let ruling = policy.ruling_of(image);
    let reference = image.reference();
    let scopes = told::clauses(&ruling).into_iter();
    let scopes = scopes.map(|(scope, asks_for)| Scope { scope, asks_for });
    let tag = policy.may_resolve_tag(reference, conditions);
    Told {
        unseen: None,
        one_of: told::is_one_of(&ruling),
        scopes: scopes.collect(),
        tag_allowed: reference.digest().is_none().then_some(tag.is_ok()),
        tag: tag.err().map(|refused| refused.to_string()),
        refused: told::refused(policy, conditions, image),
    }
}

impl Told {
    /// The lines that people get, each behind its label.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows: Vec<_> = self.unseen.iter().map(|place| ("policy", place.clone())).collect();
        if self.one_of {
            rows.push(("policy", told::ONE_OF.to_owned()));
        }
        for Scope { scope, asks_for } in &self.scopes {
            rows.push(("policy", format!("{scope} asks for {}", asks_for.join(", and for "))));
        }
        rows.extend(self.tag.iter().map(|refused| ("tag", refused.clone())));
        rows
    }
}

/// The faults of the section in initdata: those of its own, and those of the policy that should lie
/// beside it. Initdata without a valid document has none.
pub fn faults_in(data: &BTreeMap<initdata::FileName, String>) -> Vec<Finding> {
    let file = |name: &str| data.iter().find(|(file, _)| file.as_str() == name);
    let document = file(DOCUMENT).and_then(|(_, text)| {
        let checked = Document::parse_measured(text.as_bytes());
        checked.ok()?.document.image_policy
    });
    let Some(written) = document else {
        return Vec::new();
    };
    let mut faults = match section::read(&written) {
        Ok(_) => Vec::new(),
        Err(problems) => of_problems(&problems),
    };
    if let PolicySource::File(name) = &written.source {
        match file(name) {
            None => faults.push(finding(
                &written,
                format!("[data] has no key \"{name}\", so every pull fails; add the policy there"),
            )),
            Some((_, text)) => {
                let policy = section::policy(&written, text.as_bytes());
                faults.extend(policy.err().map(|error| finding(&written, error.to_string())));
            }
        }
    }
    for fault in &mut faults {
        let line = fault.line.take().map_or(String::new(), |line| format!("line {line}: "));
        fault.message = format!("{line}{}: {}", fault.key, fault.message);
        fault.key = format!("data.\"{DOCUMENT}\"");
    }
    faults
}

/// Where the policy is, if it is not in the document.
fn place_of(written: &ImagePolicy) -> Option<String> {
    match &written.source {
        PolicySource::Text(_) => None,
        PolicySource::File(name) => Some(format!(
            "the policy is the file \"{name}\" of the initdata, which is not looked at here; ask \
            `kata-configdev policy` about it"
        )),
        PolicySource::Uri(reference) => Some(format!(
            "the guest gets the policy by {reference}, so that it is not known here; ask \
            `kata-configdev policy` about it"
        )),
    }
}

fn remarks(written: &ImagePolicy, policy: &Policy) -> Vec<Finding> {
    let remarks = policy.remarks().iter();
    remarks.map(|remark| finding(written, remark.to_string())).collect()
}

fn finding(written: &ImagePolicy, message: String) -> Finding {
    Finding { line: Some(written.line()), key: written.key().to_owned(), message }
}
