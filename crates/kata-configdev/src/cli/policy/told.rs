//! What a policy asks of an image, in words; for `policy explain` and for `explain`.

use image_policy::conditions::Conditions;
use image_policy::ruling::{Quantity, Ruling};
use image_policy::{Name, Policy};
use oci_image::named::NamedReference;

/// Before the scopes of which one must hold.
pub const ONE_OF: &str = "no scope of this name asks for anything, and its tag may have been \
    dropped or changed on the way; so one of the scopes of the repository's tags must hold, as if \
    the image had that tag";

/// Each scope that decides, and what it asks for.
pub fn clauses(ruling: &Ruling<'_>) -> Vec<(String, Vec<String>)> {
    let clauses = ruling.clauses().iter();
    let told = clauses.map(|clause| {
        let requirements = clause.requirements().iter().map(ToString::to_string);
        (clause.to_string(), requirements.collect())
    });
    told.collect()
}

/// Why the image does not run, whatever signatures it has.
pub fn refused(policy: &Policy, conditions: &Conditions, name: &Name) -> Option<String> {
    let ruling = policy.ruling_of(name);
    let digest = name.reference().digest();
    let is_listed = digest.is_some_and(|digest| conditions.refuses(digest));
    if ruling.needs_signatures() && !is_listed {
        return None;
    }
    let no_key = |_: &str| Err("is not looked at here".to_owned());
    let refusal = ruling.judge(&[], &[], &no_key, conditions).err();
    refusal.map(|refusal| refusal.to_string())
}

/// Why a guest does not resolve the tag of a name without digest, whatever its owner allows.
pub fn never_resolved(policy: &Policy, image: &NamedReference) -> Option<String> {
    let every = Conditions::parse(&[String::new()], &[]).unwrap_or_default();
    let refused = policy.may_resolve_tag(image, &every).err();
    refused.map(|refused| refused.to_string())
}

/// Whether one of the scopes is enough.
pub fn is_one_of(ruling: &Ruling<'_>) -> bool {
    ruling.quantity() == Quantity::One
}
