//! Where results go, and what is put there where initdata or a configuration was refused, or where
//! this program failed.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use process_sandbox::files::Grant;

use crate::Error;
use crate::insecure::Insecure;
use crate::journal::Journal;
use crate::measured::{Layout, Measured};
use crate::origin::Origins;
use crate::outcome::{Configured, Outcome};
use crate::paths::Paths;
use crate::settings::{Settings, Target};
use crate::withdraw::Nodes;

/// The directories of the results. From the first moment on they hold refusals; each outcome
/// replaces one.
#[derive(Debug)]
pub struct Results {
    pub measured: Measured,
    pub insecure: Insecure,
    pub origins: Origins,
    nodes: Option<Nodes>,
    targets: Vec<Target>,
}

impl Results {
    /// Puts refusals in place, so that a process that is killed leaves a guest that runs nothing.
    /// Before that it waits for another run or refresh to end, but not longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`], [`Error::Write`], which are logged.
    pub fn prepare(
        paths: &Paths,
        settings: &Settings,
        layout: Layout,
        patience: Duration,
        journal: &mut Journal<'_>,
    ) -> Result<Self, Error> {
        let reason = Error::NotFinished.line();
        // The lock before anything is touched: another run may be at work in both directories.
        let locked = Insecure::make(&paths.run, settings.owner)
            .and_then(|insecure| insecure.lock(patience, journal).map(|()| insecure));
        let prepared = Measured::prepare(paths, layout, settings.accepted_disk, &reason);
        let measured = logged(prepared, journal)?;
        let insecure = locked.and_then(|insecure| {
            insecure.mark_refused()?;
            let origins = Origins::make(&paths.run)?;
            for target in &settings.files {
                insecure.refuse_first(target, &reason)?;
                origins.forget_earlier(target)?;
            }
            Ok((insecure, origins))
        });
        match logged(insecure, journal) {
            Ok((insecure, origins)) => Ok(Self {
                measured,
                insecure,
                origins,
                nodes: Nodes::open(paths),
                targets: settings.files.clone(),
            }),
            Err(error) => {
                // A guest in which passwords may lie about must not run anything either.
                let _ = logged(measured.refuse(&error.line()), journal);
                Err(error)
            }
        }
    }

    /// What placing results takes.
    pub fn grants(&self) -> Vec<(BorrowedFd<'_>, Grant)> {
        let mut grants = self.measured.grants();
        grants.push((self.insecure.directory(), Grant::Files));
        grants.push((self.origins.directory(), Grant::Files));
        grants.extend(self.nodes.iter().flat_map(Nodes::grants));
        grants
    }

    /// The directory of the device nodes, if there is one.
    pub fn dev(&self) -> Option<BorrowedFd<'_>> {
        self.nodes.as_ref().map(Nodes::directory)
    }

    /// Refuses initdata and all configurations because of `reason`, and leaves no disk with
    /// initdata to the agent. A guest that may run nothing gets no password either.
    pub fn refuse_all(&self, reason: Error, journal: &mut Journal<'_>) -> Outcome {
        self.refuse_and(
            |nodes, journal| nodes.withdraw_initdata(|_| None, journal),
            reason,
            journal,
        )
    }

    /// [`Results::refuse_all`] where reading disks again may not come back: leaves none of them.
    pub fn refuse_unread(&self, reason: Error, journal: &mut Journal<'_>) -> Outcome {
        self.refuse_and(Nodes::withdraw_all, reason, journal)
    }

    fn refuse_and(
        &self,
        withdraw: fn(&Nodes, &mut Journal<'_>) -> Result<(), Error>,
        reason: Error,
        journal: &mut Journal<'_>,
    ) -> Outcome {
        let line = reason.line();
        journal.error(format_args!("initdata refused: {line}"));
        let mut written = vec![
            logged(self.measured.refuse(&line), journal),
            logged(self.insecure.mark_refused(), journal),
        ];
        if written[0].is_ok() {
            journal.info("deny-all policy in place: measured-cfg/policy.rego");
        }
        let follows = || Error::InitdataRefused(line.clone());
        for target in &self.targets {
            let put = self.insecure.refuse(target, &follows().line());
            written.push(logged(put, journal));
        }
        if let Some(nodes) = &self.nodes {
            written.push(logged(withdraw(nodes, journal), journal));
        }
        let refused =
            |target: &Target| Configured { name: target.name.clone(), result: Err(follows()) };
        Outcome {
            configurations: self.targets.iter().map(refused).collect(),
            initdata: Err(reason),
            unwritten: written.into_iter().filter_map(Result::err).collect(),
        }
    }

    /// Leaves no disk with initdata to the agent, but for those of which `known` says otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`Nodes::withdraw_initdata`].
    pub fn withdraw_initdata(
        &self,
        known: impl Fn(&str) -> Option<bool>,
        journal: &mut Journal<'_>,
    ) -> Result<(), Error> {
        match &self.nodes {
            Some(nodes) => nodes.withdraw_initdata(known, journal),
            None => Ok(()),
        }
    }

    /// Puts `reason` in place of one configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Write`], which is logged.
    pub fn refuse(
        &self,
        target: &Target,
        reason: &Error,
        journal: &mut Journal<'_>,
    ) -> Result<(), Error> {
        let line = reason.line();
        journal.error(format_args!("{} refused: {line}", target.name));
        logged(self.insecure.refuse(target, &line), journal)
    }
}

fn logged<T>(result: Result<T, Error>, journal: &mut Journal<'_>) -> Result<T, Error> {
    result.inspect_err(|error| journal.error(error.line()))
}
