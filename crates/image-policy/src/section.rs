//! The section `[image-policy]` of the measured document, given its meaning.
//!
//! The one place that does so, for the guest that pulls and for the host that checks a document or
//! explains an image. `docs/image-policy.md` has the rules.

use registry_config::{ImagePolicy, PolicyPart, PolicySource, Problems};

use crate::conditions::{Conditions, Fault};
use crate::json_node::InvalidPolicy;
use crate::policy::Policy;

/// What the section means: what holds beside the policy, and the policy, where it stands in the
/// document itself.
///
/// # Errors
///
/// Everything that has no meaning, as problems of the document: scopes of `allow-tags`, digests of
/// `refuse`, and the policy, whose own lines are in the words.
pub fn read(written: &ImagePolicy) -> Result<(Conditions, Option<Policy>), Problems> {
    let inline = match &written.source {
        PolicySource::Text(text) => policy(written, text.as_bytes()).map(Some),
        PolicySource::File(_) | PolicySource::Uri(_) => Ok(None),
    };
    match (parse(written), inline) {
        (Ok(conditions), Ok(policy)) => Ok((conditions, policy)),
        (conditions, policy) => {
            let lists = conditions.err().unwrap_or_default();
            let policy = policy.err();
            let policy = policy.map(|error| (PolicyPart::Source, error.to_string()));
            Err(written.problems(lists.into_iter().chain(policy)))
        }
    }
}

/// What holds beside the policy, wherever that is.
///
/// # Errors
///
/// Each scope of `allow-tags` and each digest of `refuse` that has no meaning.
pub fn conditions(written: &ImagePolicy) -> Result<Conditions, Problems> {
    parse(written).map_err(|faults| written.problems(faults))
}

fn parse(written: &ImagePolicy) -> Result<Conditions, Vec<Fault>> {
    Conditions::parse(&written.allow_tags, &written.refuse)
}

/// The policy of the section, out of its text: that of the document, of the file or of the broker.
///
/// # Errors
///
/// As those of [`Policy::parse`].
pub fn policy(written: &ImagePolicy, text: &[u8]) -> Result<Policy, InvalidPolicy> {
    match written.is_of_cdh {
        true => Policy::parse_of_cdh(text),
        false => Policy::parse(text),
    }
}
