//! Which signatures an image must carry before it runs.
//!
//! A policy has the form of containers-policy.json(5). [`Policy::parse`] reads it strictly,
//! [`Policy::ruling`] says which scope decides for an image and why, and [`ruling::Ruling::judge`]
//! holds the signatures that were found against it.
//!
//! Not here: I/O. Who judges brings the text, the signatures, and a function that gives the bytes
//! of a key by its path or URI. Keys that have to be fetched first are listed by
//! [`ruling::Ruling::key_paths`].
//!
//! - [`policy`]: what a policy says; `grammar` reads it, [`remark`] warns of what is legal and
//!   probably not meant.
//! - [`conditions`]: what is asked for beside the policy; which tags may be resolved.
//! - [`section`]: `[image-policy]` of the measured document, given its meaning.
//! - `name`: a name, and whose word its digest is; `scope`: which names a scope is for; [`ruling`]:
//!   which scope decides, and the verdict.
//! - [`identity`]: what a signature must name; [`key`]: public keys, and what they verify.
//! - [`places`]: where registries keep signatures; [`signature`]: signatures as they were found;
//!   [`payload`] and [`bundle`] read them; [`verifications`]: how many are verified.
//! - [`refusal`]: why an image may not run, in one sentence.
//! - [`kept`]: signatures as bytes, for who keeps them.

mod base64;
pub mod bundle;
pub mod conditions;
mod grammar;
pub mod identity;
mod json_node;
pub mod kept;
pub mod key;
mod name;
pub mod payload;
pub mod places;
pub mod policy;
pub mod refusal;
pub mod remark;
pub mod ruling;
mod scope;
pub mod section;
pub mod signature;
pub mod verifications;

pub use conditions::Conditions;
pub use json_node::InvalidPolicy;
pub use name::Name;
pub use policy::Policy;
pub use refusal::Refusal;
pub use signature::Signature;
