//! Capabilities.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::Error;
use crate::error::failed;

/// Gives up every capability but those in `kept`, and the way back to them.
///
/// # Errors
///
/// Where the kernel refuses, such as for a capability that the process does not have.
pub fn keep_only(kept: CapabilitySet) -> Result<(), Error> {
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    // The way back would be a program that gives them to whoever starts it.
    rustix::thread::set_no_new_privs(true).map_err(failed("no_new_privs"))?;
    set_capabilities(None, sets).map_err(failed("drop capabilities"))
}
