//! The settings of a set, as its wrapper reads them.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use node_installer::rules::SettingsFile;
use zeroize::Zeroizing;

use super::finding::{Finding, Severity};
use super::node::Node;
use super::set::Set;
use crate::SandboxError;
use crate::choice::ChoiceError;
use crate::host_file::{FileError, FileFault, require_administered};
use crate::namespace_path::{Allowed, NamespacePaths};
use crate::settings::files::{DROP_INS, Files, MAX_SETTINGS_BYTES, is_drop_in};
use crate::settings::{Effective, Origin, Settings, SettingsError};

/// Reads the settings of `set`, and says what keeps the wrapper from using them.
pub fn check(node: &Node, set: &mut Set<'_>, findings: &mut Vec<Finding>) {
    let effective = read(node, set, findings).and_then(|files| {
        let off = Effective::salvage(&files);
        // Then nothing else of them counts.
        match off.settings.enabled {
            true => Effective::of(files),
            false => Ok(off),
        }
    });
    let effective = match effective {
        Ok(effective) => effective,
        Err(error) => {
            findings.push(unusable(set, error));
            return;
        }
    };
    if set.wrapper.is_none() {
        let message = "no handler of Kata that was found starts a wrapper with these settings; \
            install a drop-in, see docs/operations.md";
        let path = &set.settings_file;
        findings.push(Finding::new("set-unused", Severity::Warning, path, message));
    }
    if let Origin::File { path, line } = effective.origins.of("enabled")
        && !effective.settings.enabled
    {
        let message = "enabled = false: sandboxes get no configuration; take it out to turn the \
            set on again";
        let finding = Finding::new("set-off", Severity::Warning, path, message);
        findings.push(finding.at_line(*line));
    }
    if effective.settings.enabled {
        findings.extend(transport(set, &effective));
        findings.extend(allowed(node, set, &effective.settings));
    }
    set.effective = Some(effective);
}

/// The texts of all files.
fn read(node: &Node, set: &Set<'_>, findings: &mut Vec<Finding>) -> Result<Files, SettingsError> {
    let mut paths = vec![set.settings_file.clone()];
    paths.extend(drop_ins(node, set, findings)?);
    let mut files: Vec<(PathBuf, Zeroizing<Vec<u8>>, Metadata)> = Vec::new();
    for path in paths {
        let read = node.read_file(&path, MAX_SETTINGS_BYTES);
        let (text, metadata) = read.map_err(|fault| fault.at(&path))?;
        files.push((path, text, metadata));
    }
    let files = files.iter().map(|(path, text, metadata)| SettingsFile {
        path: path.clone(),
        text,
        metadata: Some(metadata.clone()),
    });
    Ok(Files::given(&files.collect::<Vec<_>>()))
}

/// The drop-ins in their order.
fn drop_ins(
    node: &Node,
    set: &Set<'_>,
    findings: &mut Vec<Finding>,
) -> Result<Vec<PathBuf>, FileError> {
    let directory = set.settings_file.with_file_name(DROP_INS);
    let metadata = match node.metadata(&directory) {
        Ok(metadata) => metadata,
        Err(fault) if fault.is_absent() => return Ok(Vec::new()),
        Err(fault) => return Err(fault.at(directory)),
    };
    let listed = require_administered(&metadata).and_then(|()| node.list_all(&directory));
    let mut paths = Vec::new();
    for entry in listed.map_err(|fault| fault.at(&directory))? {
        let path = directory.join(&entry.name);
        if is_drop_in(entry.name.as_bytes()) {
            paths.push(path);
            continue;
        }
        let message = "the wrapper reads only *.toml here, and no hidden file, so that this has no \
            effect; remove it, or rename it if it is meant";
        findings.push(Finding::new(
            "settings-not-read",
            Severity::Note,
            path,
            message,
        ));
    }
    Ok(paths)
}

fn unusable(set: &Set<'_>, error: SettingsError) -> Finding {
    let (id, path, line) = match &error {
        SettingsError::Text { path, line, .. } => ("settings-invalid", path.clone(), *line),
        SettingsError::File(error) => {
            let id = match &error.fault {
                fault if fault.is_absent() => "settings-missing",
                FileFault::Owner(_) | FileFault::Writable(_) => "settings-access",
                _ => "settings-unread",
            };
            (id, error.path.clone(), 0)
        }
    };
    let is_started = set.wrapper.is_some();
    let severity = match is_started {
        true => Severity::Fault,
        false => Severity::Warning,
    };
    of_sandboxes(id, severity, path, &error.into()).at_line(line)
}

/// What every sandbox fails with, in the wrapper's own words.
pub(super) fn of_sandboxes(
    id: &'static str,
    severity: Severity,
    path: PathBuf,
    error: &SandboxError,
) -> Finding {
    let message = format!("sandboxes fail to {error}: {}", error.remedy());
    Finding::new(id, severity, path, message)
}

fn transport(set: &Set<'_>, effective: &Effective) -> Option<Finding> {
    let transport = effective.settings.transport;
    if transport.is_for_wrapper() {
        return None;
    }
    let (path, line) = place(set, effective.origins.of("transport"));
    let error = SandboxError::WrapperTransport(transport.name());
    Some(of_sandboxes("transport-refused", Severity::Fault, path, &error).at_line(line))
}

/// The directories of the allow-list that are not there.
fn allowed(node: &Node, set: &Set<'_>, settings: &Settings) -> Vec<Finding> {
    let allowed = NamespacePaths::of(settings).allowed;
    let directories = allowed.iter().map(Allowed::directory);
    let missing = directories.filter(|directory| !node.has_directory(directory));
    let finding = |directory: &Path| {
        let error = SandboxError::from(ChoiceError::AnnotationDirectory {
            directory: directory.to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        });
        let message = format!(
            "sandboxes whose pods name a document there fail to {error}: {}",
            error.remedy()
        );
        let path = &set.settings_file;
        Finding::new("annotation-directory", Severity::Warning, path, message)
    };
    missing.map(finding).collect()
}

/// The file and line of a value; the settings file, where no file has it.
pub(super) fn place(set: &Set<'_>, origin: &Origin) -> (PathBuf, usize) {
    match origin {
        Origin::BuiltIn => (set.settings_file.clone(), 0),
        Origin::File { path, line } => (path.to_path_buf(), *line),
    }
}
