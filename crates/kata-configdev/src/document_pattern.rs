//! The path of the node's document, which may be a pattern. One with a name for each namespace is
//! another thing: [`namespace_path`](crate::namespace_path).

use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use rustix::io::Errno;

use crate::host_file::{FileError, FileFault};
use crate::namespace_path::NamespacePath;
use crate::node_root::NodeRoot;

/// A pattern's special characters. A path without them is itself, whatever is there.
const SPECIAL: [char; 3] = ['*', '?', '['];

/// How many matches an error line names.
const MAX_NAMED: usize = 3;

/// The most entries of a directory that are compared with a pattern. Free to change.
const MAX_ENTRIES: usize = 100_000;

/// `*` stays within one directory and leaves hidden files alone: editors and installers put
/// half-written copies there.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// What stands in the way of a pattern's one match.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternFault {
    /// No file.
    #[error("no file matches the pattern")]
    NoMatch,
    /// More than one file.
    #[error("more than one file matches the pattern: {}", listed(.0))]
    Several(Vec<PathBuf>),
    /// A directory on the way cannot be looked into, so the number of matches is not known.
    #[error(transparent)]
    Unreadable(#[from] FileError),
    /// Not a pattern.
    #[error("not a pattern: {0}")]
    Syntax(&'static str),
}

fn listed(paths: &[PathBuf]) -> String {
    let mut names: Vec<String> =
        paths.iter().take(MAX_NAMED).map(|path| path.display().to_string()).collect();
    if paths.len() > MAX_NAMED {
        names.push("...".into());
    }
    names.join(", ")
}

/// Whether `path` is a pattern, and not simply a path.
#[must_use]
pub fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(SPECIAL))
}

/// Refuses what could never be resolved, and `**`, which would search whole trees each time a
/// sandbox starts.
///
/// # Errors
///
/// [`PatternFault::Syntax`].
pub fn check(path: &Path) -> Result<(), PatternFault> {
    let by_namespace = NamespacePath::parse(path).map_err(PatternFault::Syntax)?;
    if !is_pattern(path) {
        return Ok(());
    }
    if by_namespace.is_some() {
        return Err(PatternFault::Syntax("with {namespace} it can have no \"*\", \"?\" or \"[\""));
    }
    let text = path.to_str().unwrap_or_default();
    if text.contains("**") {
        return Err(PatternFault::Syntax("\"**\" is not supported"));
    }
    Pattern::new(text).map_or_else(|error| Err(PatternFault::Syntax(error.msg)), |_| Ok(()))
}

/// The file of the node that `path` stands for: itself, or the one file that matches it as a
/// pattern.
///
/// Zero matches are an error as a missing file is; several are, because whichever were taken would
/// be a guess.
///
/// # Errors
///
/// [`PatternFault`].
pub fn resolve(node: &NodeRoot, path: &Path) -> Result<PathBuf, PatternFault> {
    check(path)?;
    if !is_pattern(path) {
        return Ok(path.into());
    }
    let mut found = vec![PathBuf::new()];
    for part in path {
        found = match is_pattern(part.as_ref()) {
            true => matching(node, &found, &part.to_string_lossy())?,
            false => found.iter().map(|directory| directory.join(part)).collect(),
        };
    }
    found.retain(|path| may_be_file(node, path));
    found.truncate(MAX_NAMED + 1);
    match found.len() {
        0 => Err(PatternFault::NoMatch),
        1 => Ok(found.remove(0)),
        _ => Err(PatternFault::Several(found)),
    }
}

/// What is in `directories` and matches the `part` of a pattern.
fn matching(
    node: &NodeRoot,
    directories: &[PathBuf],
    part: &str,
) -> Result<Vec<PathBuf>, PatternFault> {
    let pattern = Pattern::new(part).map_err(|error| PatternFault::Syntax(error.msg))?;
    let mut found = Vec::new();
    for directory in directories {
        // A relative pattern begins here.
        let here = Some(Path::new(".")).filter(|_| directory.as_os_str().is_empty());
        let listed = here.unwrap_or(directory);
        let names = match node.names(listed, MAX_ENTRIES) {
            Err(fault) if is_nothing(&fault) => Vec::new(),
            names => names.map_err(|fault| node.at(listed, fault))?,
        };
        let names = names.into_iter().filter(|name| pattern.matches_with(name, OPTIONS));
        found.extend(names.map(|name| directory.join(name)));
    }
    Ok(found)
}

/// Whether there is a regular file at `path`, links followed. What cannot be looked at may be one:
/// to leave it out would be a guess.
fn may_be_file(node: &NodeRoot, path: &Path) -> bool {
    node.metadata(path).map_or_else(|fault| !is_nothing(&fault), |found| found.is_file())
}

/// Whether a path leads nowhere.
fn is_nothing(fault: &FileFault) -> bool {
    let FileFault::Io(error) = fault else {
        return false;
    };
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn resolve(path: &Path) -> Result<PathBuf, PatternFault> {
        super::resolve(&NodeRoot::open(None).unwrap(), path)
    }

    #[test]
    fn a_pattern_must_match_exactly_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let below = |path: &str| dir.path().join(path);
        for (folder, files) in [
            ("one/etc", &["a.toml"][..]),
            ("two/etc", &["a.toml", "b.toml", ".hidden.toml", "c*.toml"]),
            ("empty/etc", &[]),
        ] {
            std::fs::create_dir_all(below(folder)).unwrap();
            for file in files {
                std::fs::write(below(folder).join(file), "").unwrap();
            }
        }
        let cases = [
            // A plain path is not looked at.
            ("absent.toml", Ok("absent.toml")),
            ("one/etc/a.toml", Ok("one/etc/a.toml")),
            ("one/*/a.toml", Ok("one/etc/a.toml")),
            ("on?/etc/*.toml", Ok("one/etc/a.toml")),
            ("two/etc/[b-z].toml", Ok("two/etc/b.toml")),
            ("two/etc/c[*].toml", Ok("two/etc/c*.toml")),
            ("*/etc/b.toml", Ok("two/etc/b.toml")),
            ("empty/etc/*.toml", Err("no file matches")),
            ("*/absent.toml", Err("no file matches")),
            // `*` does not cross a directory.
            ("o*.toml", Err("no file matches")),
            ("*/etc/a.toml", Err("more than one file matches")),
            ("two/etc/[ab].toml", Err("b.toml")),
            ("**/b.toml", Err("not supported")),
            ("{namespace}/b.toml", Err("in its last part only")),
            ("*/{namespace}.toml", Err("it can have no \"*\"")),
        ];
        for (pattern, expected) in cases {
            let found = resolve(&below(pattern)).map_err(|error| error.to_string());
            match (found, expected) {
                (Ok(path), Ok(expected)) => assert_eq!(path, below(expected), "{pattern}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (found, _) => panic!("{pattern}: {found:?}"),
            }
        }
    }

    /// A mounted Kubernetes volume has directories and links of its own beside the file.
    #[test]
    fn only_regular_files_match() {
        let dir = tempfile::tempdir().unwrap();
        let below = |path: &str| dir.path().join(path);
        std::fs::create_dir(below("directory.toml")).unwrap();
        for (target, link) in [
            ("absent", "dangling.toml"),
            ("loop.toml", "loop.toml"),
            ("directory.toml", "link-to-directory.toml"),
        ] {
            symlink(target, below(link)).unwrap();
        }
        let message = resolve(&below("*.toml")).unwrap_err().to_string();
        assert!(message.contains("no file matches"), "{message}");
        std::fs::write(below("data"), "").unwrap();
        symlink("data", below("link.toml")).unwrap();
        assert_eq!(resolve(&below("*.toml")).unwrap(), below("link.toml"));
        std::fs::write(below("second.toml"), "").unwrap();
        let message = resolve(&below("*.toml")).unwrap_err().to_string();
        assert!(message.contains("more than one file"), "{message}");
    }

    #[test]
    fn an_error_names_some_of_many_matches() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..10 {
            std::fs::write(dir.path().join(format!("{number}.toml")), "").unwrap();
        }
        let message = resolve(&dir.path().join("*.toml")).unwrap_err().to_string();
        assert!(message.contains("/2.toml, ..."), "{message}");
        assert!(!message.contains("/3.toml"), "{message}");
    }
}
