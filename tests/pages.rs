//! The pages for people.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The checkout.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All pages, in order.
///
/// # Errors
///
/// Those of the file system.
pub fn pages() -> Result<Vec<PathBuf>> {
    let root = root();
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|page| root.join(page)).into();
    for folder in ["deploy", "docs"] {
        pages.extend(files(&root.join(folder), "md")?);
    }
    Ok(pages)
}

/// All files with this extension below a directory, in order.
///
/// # Errors
///
/// Those of the file system.
pub fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|known| known == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A page's text.
///
/// # Errors
///
/// Those of the file system.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
