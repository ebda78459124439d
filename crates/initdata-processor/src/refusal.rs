//! What is put in place where initdata or the configuration was refused, or where this program failed.

use crate::initdata::FileName;
use crate::journal::Journal;
use crate::paths::Paths;
use crate::{Error, Outcome, bug, deny, insecure, measured};

/// Does `work`; a panic refuses both, since what was placed before it cannot be relied on.
pub fn contain(
    paths: &Paths,
    journal: &mut Journal<'_>,
    work: impl FnOnce(&mut Journal<'_>) -> Outcome,
) -> Outcome {
    bug::contain(|| work(journal)).unwrap_or_else(|place| {
        let refused = Error::Internal { place };
        let follows = follows(&refused);
        let written = [
            initdata(&refused, paths, journal),
            configuration(&follows, paths, journal),
        ];
        Outcome {
            initdata: Err(refused),
            configuration: Err(follows),
            unwritten: written.into_iter().filter_map(Result::err).collect(),
        }
    })
}

/// Puts the deny-all policy with `reason` in place.
///
/// # Errors
///
/// [`Error::Write`], which is logged.
pub fn initdata(reason: &Error, paths: &Paths, journal: &mut Journal<'_>) -> Result<(), Error> {
    journal.error(format_args!("initdata refused: {}", reason.line()));
    told(put_deny_policy(paths, &reason.line()), journal)?;
    journal.info("deny-all policy in place: measured-cfg/policy.rego");
    Ok(())
}

/// Why there is no configuration where initdata was refused for `reason`.
///
/// Whoever holds a password in a guest that may run nothing can only lose it.
pub fn follows(reason: &Error) -> Error {
    Error::InitdataRefused {
        reason: reason.line(),
    }
}

/// Puts the error file with `reason` in place of the configuration.
///
/// # Errors
///
/// [`Error::Write`], which is logged.
pub fn configuration(
    reason: &Error,
    paths: &Paths,
    journal: &mut Journal<'_>,
) -> Result<(), Error> {
    told(insecure::refuse(&paths.run, &reason.line()), journal)
}

fn put_deny_policy(paths: &Paths, reason: &str) -> Result<(), Error> {
    let name = FileName::new(deny::FILE).map_err(|source| Error::Document {
        disk: "none".into(),
        source,
    })?;
    let policy = deny::policy(reason);
    measured::replace(&paths.run, [(&name, policy.as_bytes())])
}

fn told(result: Result<(), Error>, journal: &mut Journal<'_>) -> Result<(), Error> {
    result.inspect_err(|error| journal.error(error.line()))
}
