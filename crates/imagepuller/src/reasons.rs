//! Why references gave nothing: kept in the guest's memory, and shown by `imagepuller status` only.
//!
//! The host may name any resource, and it reads the errors of pulls and the guest's console. So
//! both say the same whether a resource is missing, denied, empty or another secret, and the reason
//! is in a file that only the guest's root reads.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use foreign_text::bounded;
use foreign_text::shown;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Where the reasons are, unless another place is named: in the guest's memory.
pub const DEFAULT_PATH: &str = "/run/imagepuller-reasons";

/// How many reasons are kept. A pull has a handful.
const MAX_REASONS: usize = 64;

/// The most of a reason or a reference that is kept.
const MAX_TEXT_CHARS: usize = 2048;

/// The largest file that is read: all reasons, with escapes.
const MAX_FILE_BYTES: usize = MAX_REASONS * 6 * 2 * MAX_TEXT_CHARS;

/// One at a time, for all pulls of this process: each writes the file anew.
static WRITING: Mutex<()> = Mutex::new(());

/// Where reasons go.
#[derive(Clone, Debug, Default)]
pub enum Reasons {
    /// Into a file, a JSON object on each line, the latest last.
    Kept(PathBuf),
    /// Into the error: who asked sits at a terminal, and nothing is kept.
    #[default]
    Told,
}

/// Why a reference gave nothing.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Seconds since 1970, by the guest's clock.
    pub time: u64,
    /// What was named.
    pub reference: String,
    /// Why nothing came of it. Holds no part of a secret.
    pub why: String,
}

impl Reasons {
    /// Keeps a reason. Returns the error of the pull, which does not tell it where it is kept.
    pub fn withhold(&self, reference: &str, why: &str) -> Error {
        let reason = Reason {
            time: now(),
            reference: shown(reference).up_to(MAX_TEXT_CHARS).to_string(),
            why: shown(why).up_to(MAX_TEXT_CHARS).to_string(),
        };
        let reference = reason.reference.clone();
        let Self::Kept(path) = self else {
            let why = Some(reason.why);
            return Error::Withheld { reference, why };
        };
        if let Err(error) = keep(path, reason) {
            tracing::warn!(file = %path.display(), %error, "reasons cannot be kept");
        }
        Error::Withheld { reference, why: None }
    }

    /// What is kept in a file, the latest last. None if there is no such file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read. A line that is no reason is passed over.
    pub fn read(path: &Path) -> io::Result<Vec<Reason>> {
        let text = match bounded::read_path(path, MAX_FILE_BYTES) {
            Ok(text) => text,
            Err(bounded::ReadError::NotThere(_)) => return Ok(Vec::new()),
            Err(error) => return Err(io::Error::other(error)),
        };
        let lines = text.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// Writes the file anew, with mode 0600, by rename.
fn keep(path: &Path, reason: Reason) -> io::Result<()> {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = Reasons::read(path).unwrap_or_default();
    // One for each reference, so that nobody drives out the others with one of them.
    all.retain(|kept| kept.reference != reason.reference);
    all.push(reason);
    let begin = all.len().saturating_sub(MAX_REASONS);
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let mut text = Vec::new();
    for reason in &all[begin..] {
        serde_json::to_writer(&mut text, reason)?;
        text.push(b'\n');
    }
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_last_reasons_are_kept_for_root_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("guest/reasons");
        assert_eq!(Reasons::read(&path).unwrap(), []);
        let reasons = Reasons::Kept(path.clone());
        for at in 0..MAX_REASONS + 3 {
            let error = reasons.withhold(&format!("kbs:///a/b/{at}"), "was\n\u{202e}denied");
            assert_eq!(
                error.to_string(),
                format!(
                    "kbs:///a/b/{at}: the broker gave nothing usable to this guest; `imagepuller \
                    status` inside says why"
                )
            );
        }
        let kept = Reasons::read(&path).unwrap();
        assert_eq!(kept.len(), MAX_REASONS);
        assert_eq!(kept[0].reference, "kbs:///a/b/3");
        assert!(kept.iter().all(|reason| reason.why.is_ascii()), "{kept:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        reasons.withhold("kbs:///a/b/9", "is another");
        let again = Reasons::read(&path).unwrap();
        assert_eq!((again.len(), &*again[63].why), (MAX_REASONS, "is another"));
        let told = Reasons::Told.withhold("kbs:///a/b/c", "was denied").to_string();
        assert!(told.ends_with("nothing usable to this guest: was denied"), "{told}");
        // Whatever was there before is no reason to keep none.
        fs::write(&path, b"\xff{}\n").unwrap();
        reasons.withhold("kbs:///a/b/c", &"x".repeat(1 << 20));
        let kept = Reasons::read(&path).unwrap();
        assert_eq!(kept.len(), 1);
        assert!(kept[0].why.len() <= MAX_TEXT_CHARS + 8);
    }
}
