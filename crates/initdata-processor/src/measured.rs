//! `/run/measured-cfg`: verified files with a policy, or the deny-all policy; and what Kata's own
//! guest components look for instead.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;

use clap::ValueEnum;
use initdata::{Document, FileName};
use process_sandbox::files::Grant;

use crate::default_policy::DefaultPolicy;
use crate::paths::Paths;
use crate::settings::AcceptedDisk;
use crate::swap::Swap;
use crate::{Error, deny};

/// The directory's name below `/run`.
pub const DIRECTORY: &str = "measured-cfg";

/// The directory's name below `/run/confidential-containers`.
pub const KATA_AGENT_DIRECTORY: &str = "initdata";

/// The document itself, byte for byte, for those who want to verify it again.
const WHOLE: &str = "initdata.toml";

/// The entries that have a place of their own in Kata's layout.
const KATA_AGENT_ENTRIES: [&str; 2] = ["aa.toml", "cdh.toml"];

/// Where verified files go besides `/run/measured-cfg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Nowhere else.
    #[value(skip)]
    Own,
    /// /run/confidential-containers/initdata
    // As Kata's agent leaves them: the document, and the configurations of the attestation agent
    // and of the confidential data hub.
    KataAgent,
}

/// The directories with what is verified.
#[derive(Debug)]
pub struct Measured {
    own: Swap,
    kata_agent: Option<Swap>,
    layout: Layout,
}

impl Measured {
    /// Puts the deny-all policy with `reason` in place, to stand there whatever happens to this
    /// process from now on.
    ///
    /// Where the agent is to find no disk, its own directory is ours, whatever `layout` is: made
    /// read-only before the agent starts, it ends an agent that finds one nevertheless, and has to
    /// write there before it takes its policy from it.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn prepare(
        paths: &Paths,
        layout: Layout,
        disk: AcceptedDisk,
        reason: &str,
    ) -> Result<Self, Error> {
        let policy = deny::policy(reason);
        let name = FileName::fixed(deny::FILE);
        let files = [(&name, policy.as_bytes())];
        let own = Swap::prepare(&paths.run, DIRECTORY, &files)?;
        let kata_agent = match disk {
            AcceptedDisk::Copy | AcceptedDisk::Keep => None,
            AcceptedDisk::Remove => {
                let parent = &paths.kata_agent;
                let mut directory = DirBuilder::new();
                directory.mode(0o755);
                // Whether it is a directory shows when one is made in it.
                match directory.create(parent) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        directory.recursive(true).create(parent)
                    }
                    made => made,
                }
                .map_err(|source| Error::Write(parent.clone(), source))?;
                Some(Swap::prepare(parent, KATA_AGENT_DIRECTORY, &[])?)
            }
        };
        Ok(Self {
            own,
            kata_agent,
            layout,
        })
    }

    /// Puts every entry of `document`, whose text is `whole`, in place; and besides, where none of
    /// them is a policy, what `policy` gives. Says whether that was so.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; then the caller must refuse.
    pub fn place(
        &self,
        document: &Document,
        whole: &[u8],
        policy: &DefaultPolicy,
    ) -> Result<bool, Error> {
        let mut files: Vec<_> = document
            .data
            .iter()
            .map(|(name, content)| (name, content.as_bytes()))
            .collect();
        if self.layout == Layout::KataAgent {
            let kata_agent = self.kata_agent.as_ref().ok_or(Error::Layout)?;
            let known = KATA_AGENT_ENTRIES.map(FileName::fixed);
            let name = FileName::fixed(WHOLE);
            let mut theirs: Vec<_> = files
                .iter()
                .filter(|(name, _)| known.contains(name))
                .copied()
                .collect();
            theirs.push((&name, whole));
            kata_agent.place(&theirs)?;
        }
        let name = FileName::fixed(deny::FILE);
        if document.data.contains_key(&name) {
            return self.own.place(&files).map(|()| false);
        }
        let policy = policy.text();
        files.push((&name, policy.as_bytes()));
        self.own.place(&files).map(|()| true)
    }

    /// Puts `policy` alone in place: no initdata was announced, and there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Write`].
    pub fn place_policy(&self, policy: &str) -> Result<(), Error> {
        self.own
            .place(&[(&FileName::fixed(deny::FILE), policy.as_bytes())])
    }

    /// Puts the deny-all policy with `reason` in place.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; what stands there then is what stood there before.
    pub fn refuse(&self, reason: &str) -> Result<(), Error> {
        // The policy first: it is what keeps the guest from running anything.
        self.place_policy(&deny::policy(reason))?;
        match &self.kata_agent {
            Some(kata_agent) => kata_agent.place(&[]),
            None => Ok(()),
        }
    }

    /// What writing here takes.
    pub fn grants(&self) -> Vec<(BorrowedFd<'_>, Grant)> {
        [Some(&self.own), self.kata_agent.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(|swap| {
                [
                    (swap.home(), Grant::Directories),
                    (swap.home(), Grant::Files),
                ]
            })
            .collect()
    }
}
