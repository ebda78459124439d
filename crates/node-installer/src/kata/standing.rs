//! One handler as it stands on a node, whoever installed what: for who looks for faults.

use std::collections::BTreeSet;
use std::path::Path;

use foreign_text::shown;

use super::Finding;
use super::handler::{File, Handler, Runtime};
use super::said::Value;
use super::start::is_wrapper;
use crate::node::Node;
use crate::{Error, HostPath};

/// What a handler's directory says. Every path is the node's and safe to show.
#[derive(Debug)]
#[non_exhaustive]
pub struct Standing {
    /// The wrapper that a file points Kata to, whether or not a later one wins.
    pub wrapper: Option<Place>,
    /// What is wrong where Kata is pointed to the wrapper; where it is not, only the files that
    /// cannot be read and might.
    pub findings: Vec<Finding>,
    /// Each `configuration*.toml` that may be used.
    pub mains: Vec<Main>,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<T = String> {
    /// The value, as it is written.
    pub value: T,
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
}

/// A main file together with the drop-ins behind it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Main {
    /// The file.
    pub path: String,
    /// Whether it is one of runtime-rs.
    pub is_rust: bool,
    /// Whether its sandboxes start QEMU.
    pub starts_qemu: bool,
    /// The QEMU that its sandboxes would start without the wrapper.
    pub qemu: Option<Place>,
    /// Where Kata is told to have all images pulled in the guest.
    pub guest_pull: Option<Place<()>>,
    values: Vec<(&'static str, &'static str, Place<Value>)>,
}

impl Main {
    /// The value of `key` in the tables of this kind (`runtime`, `agent`, `hypervisor`), if it is
    /// one of those that are handed on.
    #[must_use]
    pub fn value(&self, kind: &str, key: &str) -> Option<&Place<Value>> {
        let mut values = self.values.iter().rev();
        let found = values.find(|value| (value.0, value.1) == (kind, key));
        found.map(|(.., place)| place)
    }
}

/// Looks at the handler whose configuration is in `directory` of the node below `host`; `None`
/// where there is no such directory. No link on the way to it is followed.
///
/// `used` are the names of the main files that are used, where the container engine says so: the
/// directory of Kata's packages has one for each hypervisor. Where none of them is in it, each may
/// be used.
///
/// # Errors
///
/// [`Error::Host`], [`Error::Node`], [`Error::DirectoryDeleted`].
pub fn look_at(
    host: &Path,
    directory: &HostPath,
    used: &BTreeSet<String>,
) -> Result<Option<Standing>, Error> {
    let node = Node::open(host)?;
    let is_ours = |_: &HostPath| false;
    // Which wrapper it is, the files themselves say.
    let Some(handler) = Handler::read(&node, directory, &is_ours, directory)? else {
        return Ok(None);
    };
    let handler = handler.with_mains(used);
    let Some((wrapper, ours)) = handler.wrapper() else {
        let mains = handler.mains.iter().map(|main| handler.main(main));
        let mains = mains.collect();
        return Ok(Some(Standing { wrapper: None, findings: handler.unread_files(), mains }));
    };
    // The drop-in that points to the wrapper says nothing of QEMU's own table.
    let path = HostPath::parse(&wrapper.value).ok();
    let read = path.as_ref().map(|path| Handler::read(&node, directory, &is_ours, path));
    let read = read.transpose()?.flatten();
    let handler = read.map_or(handler, |read| read.with_mains(used));
    let mains = handler.mains.iter().map(|main| handler.main(main));
    let mains = mains.collect();
    let mut findings = handler.hypervisors().0;
    findings.extend(handler.findings(&ours, path.as_ref().unwrap_or(directory)));
    Ok(Some(Standing { wrapper: Some(wrapper), findings, mains }))
}

impl Handler {
    /// The same with only those of its main files that are `used`, if one of them is.
    fn with_mains(mut self, used: &BTreeSet<String>) -> Self {
        if self.mains.iter().any(|main| used.contains(main.name())) {
            self.mains.retain(|main| used.contains(main.name()));
        }
        self
    }

    /// The wrapper that the last file names which names one, and the name of that drop-in; of a
    /// main file, none.
    fn wrapper(&self) -> Option<(Place, String)> {
        let drop_ins = self.drop_ins.iter().map(|file| (file, file.name()));
        let mains = self.mains.iter().map(|file| (file, ""));
        let mut named = mains.chain(drop_ins).filter_map(|(file, name)| {
            let (line, path) = file.said.qemu_path.as_ref()?;
            let place = Place { value: path.clone(), path: file.path.clone(), line: *line };
            is_wrapper(path).then(|| (place, name.to_owned()))
        });
        named.next_back()
    }

    fn main(&self, main: &File) -> Main {
        let told = self.in_order(main).flat_map(|file| {
            file.said.told.iter().map(|told| {
                let place =
                    Place { value: told.value.clone(), path: file.path.clone(), line: told.line };
                (told.kind, told.key, place)
            })
        });
        let qemu = self.in_order(main).filter_map(|file| {
            let (line, path) = file.said.qemu_path.as_ref()?;
            let place = Place { value: path.clone(), path: file.path.clone(), line: *line };
            (!is_wrapper(path)).then_some(place)
        });
        Main {
            qemu: qemu.last(),
            path: main.path.clone(),
            is_rust: self.runtime_of(main) == Runtime::Rust,
            starts_qemu: self.other_hypervisor(main).is_none(),
            guest_pull: self.guest_pull_of(main).map(|(file, line)| Place {
                value: (),
                path: file.path.clone(),
                line,
            }),
            values: told.collect(),
        }
    }
}

impl Place {
    /// The value, safe to show.
    #[must_use]
    pub fn shown(&self) -> String {
        shown(&self.value).to_string()
    }
}
