//! `/run/measured-cfg`: verified files with a policy, or the deny-all policy; and what Kata's own
//! guest components look for instead.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
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
    kata_agent: Swap,
    /// Where that one is.
    parent: File,
    layout: Layout,
    disk: AcceptedDisk,
}

impl Measured {
    /// Puts the deny-all policy with `reason` in place, to stand there whatever happens to this
    /// process from now on.
    ///
    /// The agent's own directory is ours, whatever `layout` is: made read-only before the agent
    /// starts, it ends an agent that finds a disk nevertheless, and has to write there before it
    /// takes its policy from it. See [`Measured::open`].
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
        let parent = &paths.kata_agent;
        let mut directory = DirBuilder::new();
        directory.mode(0o755);
        let made = match directory.create(parent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                directory.recursive(true).create(parent)
            }
            made => made,
        };
        // Whether it is a directory shows when one is made in it.
        let opened = made.and_then(|()| File::open(parent));
        let opened = opened.map_err(|source| Error::Write(parent.clone(), source))?;
        Ok(Self {
            own,
            kata_agent: Swap::prepare(parent, KATA_AGENT_DIRECTORY, &[])?,
            parent: opened,
            layout,
            disk,
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
        let mut files: Vec<_> =
            document.data.iter().map(|(name, content)| (name, content.as_bytes())).collect();
        if self.layout == Layout::KataAgent {
            if self.disk != AcceptedDisk::Remove {
                return Err(Error::Layout);
            }
            let known = KATA_AGENT_ENTRIES.map(FileName::fixed);
            let name = FileName::fixed(WHOLE);
            let mut theirs: Vec<_> =
                files.iter().filter(|(name, _)| known.contains(name)).copied().collect();
            theirs.push((&name, whole));
            self.kata_agent.place(&theirs)?;
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
        self.own.place(&[(&FileName::fixed(deny::FILE), policy.as_bytes())])
    }

    /// Puts the deny-all policy with `reason` in place.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; what stands there then is what stood there before.
    pub fn refuse(&self, reason: &str) -> Result<(), Error> {
        // The policy first: it is what keeps the guest from running anything.
        self.place_policy(&deny::policy(reason))?;
        self.kata_agent.place(&[])
    }

    /// Leaves its own directory to an agent that finds accepted initdata on a disk, so that it can
    /// write there. Nothing can be refused any more after that.
    ///
    /// # Errors
    ///
    /// [`Error::Write`]; then the caller must refuse.
    pub fn open(&self) -> Result<(), Error> {
        match self.disk {
            AcceptedDisk::Remove => Ok(()),
            AcceptedDisk::Copy | AcceptedDisk::Keep => {
                self.kata_agent.remove(&self.parent, KATA_AGENT_DIRECTORY)
            }
        }
    }

    /// What writing here takes.
    pub fn grants(&self) -> Vec<(BorrowedFd<'_>, Grant)> {
        let mut grants: Vec<_> = [&self.own, &self.kata_agent]
            .into_iter()
            .flat_map(|swap| [(swap.home(), Grant::Directories), (swap.home(), Grant::Files)])
            .collect();
        if self.disk != AcceptedDisk::Remove {
            let parent = self.parent.as_fd();
            grants.extend([(parent, Grant::Directories), (parent, Grant::Remove)]);
        }
        grants
    }
}
