//! Pulls by the owner's image policy, against real registries and recorded signatures.

mod by_reference;
mod cached;
mod hub;
mod indexes;
mod mirrors;
pub mod place;
mod recorded;
mod scopes;
mod signatures;
mod tags;
mod terminal;
mod timing;
