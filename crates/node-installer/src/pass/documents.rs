//! The documents of a set besides its own, each made and written by itself: a broken secret costs
//! only its own namespace the new document.

use std::io;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{Mode, fchmod};

use super::Pass;
use crate::group::Group;
use crate::kind::Kind;
use crate::source::Source;
use crate::{Error, HostPath, Options, Set, arrival, plan};

/// The mode of a directory of documents.
const CLOSED: u32 = 0o700;

/// Its mode until it is filled for the first time, after a start of the node, say. The wrapper
/// believes no directory that a group can write to, so that no pod falls back because the document
/// of its namespace comes later than another. Nobody gets in: the directory above is closed.
const FILLING: u32 = 0o720;

impl Pass {
    /// Writes the documents of namespaces and those for the annotation. The answer is their paths,
    /// and those of what stays because nobody knows what should be there.
    pub(super) fn install_documents(
        &mut self,
        options: &Options,
        name: &str,
        set: &Set,
    ) -> Vec<HostPath> {
        let mut paths = Vec::new();
        for group in set.groups().iter().filter(|group| group.is_used()) {
            let unit = group.unit(name);
            match group.found(set) {
                Ok(found) => {
                    let opened = self.open_directory(options, name, group);
                    self.outcome.problems.extend(opened.err());
                    if found.is_awaited {
                        self.outcome.is_incomplete = true;
                        let whole = set.source().name_of(group.whole.unwrap_or("".as_ref()));
                        let warning = arrival::without(&[whole], &unit);
                        self.outcome.warnings.push(warning);
                    }
                    if !found.strange.is_empty() {
                        self.outcome.is_incomplete = true;
                        let keys = found.strange.join(", ");
                        self.outcome.warnings.push(format!(
                            "the secret of {unit} has keys that are not of the form NAME.toml or \
                            NAME.dockerconfigjson: {keys}; nothing of them is used"
                        ));
                    }
                    let mut is_filled = true;
                    for (document, source) in &found.sources {
                        let (path, put) =
                            self.install_document(options, name, group, document, source);
                        paths.push(path);
                        is_filled &= put;
                    }
                    if is_filled && let Err(error) = self.close_directory(options, name, group) {
                        self.outcome.problems.push(error);
                    }
                }
                Err(source) => {
                    self.outcome.problems.push(Error::Secret {
                        set: unit.clone(),
                        place: set.source().place_of(group.whole.unwrap_or("".as_ref())),
                        source,
                    });
                    paths.extend(self.listed_of(&unit, |_| true));
                }
            }
        }
        paths
    }

    fn install_document(
        &mut self,
        options: &Options,
        name: &str,
        group: &Group<'_>,
        document: &str,
        source: &Source,
    ) -> (HostPath, bool) {
        let unit = group.unit(name);
        let directory = plan::group_directory(options, name, group);
        let path = directory.join(&format!("{document}.toml"));
        let is_kept = self.has_document(&path);
        let label = format!("{unit}/{document}");
        let made = self.make_document(&label, source, is_kept);
        let file = plan::secret_file(Kind::Document, &unit, path, made);
        let put = self.put(&file);
        let is_put = put.is_ok();
        self.outcome.problems.extend(put.err());
        (file.path, is_put)
    }

    /// Makes the directories of the documents where they are not there.
    fn open_directory(
        &mut self,
        options: &Options,
        name: &str,
        group: &Group<'_>,
    ) -> Result<(), Error> {
        let mut made = Vec::new();
        let above = plan::secret_directory(options, name);
        let opened = self.node.make_directory(&above, CLOSED, &mut made);
        let directory = plan::group_directory(options, name, group);
        let opened = opened.and_then(|_| self.node.make_directory(&directory, FILLING, &mut made));
        self.manifest.add_directories(made);
        opened.map(|_| ())
    }

    /// Says that every document is there.
    fn close_directory(
        &self,
        options: &Options,
        name: &str,
        group: &Group<'_>,
    ) -> Result<(), Error> {
        let path = plan::group_directory(options, name, group);
        let Some(directory) = self.node.directory(&path)? else {
            return Ok(());
        };
        let close = || -> io::Result<()> {
            let mode = directory.file().metadata()?.permissions().mode();
            if mode & 0o7777 != CLOSED && !self.node.is_read_only() {
                fchmod(directory.file(), Mode::from_raw_mode(CLOSED))?;
            }
            Ok(())
        };
        close().map_err(|source| Error::Node { action: "close", path, source })
    }
}
