//! The further disks of a set: files that its secret holds as they are.

use puller_config::MAX_DOCUMENT_BYTES;

use crate::plan::{Disk, SecretFile};
use crate::secret::Secret;
use crate::{Error, Set};

/// The further disks of the set `name` whose keys its secret has, with the problems and warnings
/// about the others.
pub(crate) fn disks<'s>(
    name: &str,
    set: &'s Set,
    problems: &mut Vec<Error>,
    warnings: &mut Vec<String>,
) -> Vec<Disk<'s>> {
    let mut disks = Vec::new();
    for (magic, key) in &set.disks {
        match Secret::read(&set.secret, key, MAX_DOCUMENT_BYTES) {
            Ok(Secret::Present(content)) => disks.push((&**magic, SecretFile::Made(content))),
            Ok(Secret::Absent { .. }) => warnings.push(format!(
                "the secret of the set {name} has no key {key:?}; its sandboxes get no disk \
                {magic:?}"
            )),
            Err(source) => {
                let place = set.source().place_of(&set.secret.join(key));
                let set = name.to_owned();
                problems.push(Error::Secret { set, place, source });
                disks.push((magic, SecretFile::Unusable));
            }
        }
    }
    disks
}
