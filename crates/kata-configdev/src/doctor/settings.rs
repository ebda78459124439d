//! The settings of a set, as its wrapper reads them.

use std::path::{Path, PathBuf};

use super::finding::{Finding, Severity};
use super::node::is_denied;
use super::set::Set;
use crate::SandboxError;
use crate::choice::ChoiceError;
use crate::host_file::FileFault;
use crate::namespace_path::{Allowed, NamespacePaths};
use crate::node_root::NodeRoot;
use crate::settings::files::Files;
use crate::settings::{Effective, Origin, Settings, SettingsError};

/// The most files without an effect that are told. Free to change.
const MAX_TOLD: usize = 20;

/// Reads the settings of `set`, and says what keeps the wrapper from using them.
pub fn check(node: &NodeRoot, set: &mut Set<'_>, findings: &mut Vec<Finding>) {
    let files = Files::read_seen(&set.settings_file, |path| node.seen(path));
    findings.extend(not_read(&files));
    let off = Effective::salvage(&files);
    // Then nothing else of them counts.
    let effective = match off.settings.enabled {
        true => Effective::of(files),
        false => Ok(off),
    };
    let effective = match effective {
        Ok(effective) => effective,
        Err(SettingsError::File(error)) if is_denied(&error.fault) => return,
        Err(error) => {
            findings.push(unusable(set, error));
            return;
        }
    };
    if set.wrapper.is_none() {
        let message = "no handler of Kata that was found starts a wrapper with these settings; \
            install a drop-in, see docs/operations.md, \"Install by hand\"";
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
        findings.extend(overlap(node, set, &effective));
    }
    set.effective = Some(effective);
}

/// The files beside the settings that have no effect.
fn not_read(files: &Files) -> impl Iterator<Item = Finding> {
    files.others.iter().take(MAX_TOLD).map(|path| {
        let message = "the wrapper reads only *.toml here, and no hidden file, so that this has no \
            effect; remove it, or rename it if it is meant";
        Finding::new("settings-not-read", Severity::Note, path, message)
    })
}

fn unusable(set: &Set<'_>, error: SettingsError) -> Finding {
    let (id, path, line) = match &error {
        SettingsError::Text { path, line, .. } => ("settings-invalid", path.clone(), *line),
        SettingsError::File(error) => {
            let id = match &error.fault {
                fault if fault.is_absent() => "settings-missing",
                FileFault::NotAdministered(_) => "settings-access",
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
fn allowed(node: &NodeRoot, set: &Set<'_>, settings: &Settings) -> Vec<Finding> {
    let allowed = NamespacePaths::of(settings).allowed;
    let directories = allowed.iter().map(Allowed::directory);
    let is_missing = |directory: &&Path| match node.metadata(directory) {
        Ok(found) => !found.is_dir(),
        Err(fault) => !is_denied(&fault),
    };
    let missing = directories.filter(is_missing);
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

/// Where a link on the node makes one pod's documents those of others.
fn overlap(node: &NodeRoot, set: &Set<'_>, effective: &Effective) -> Option<Finding> {
    let paths = NamespacePaths::of(&effective.settings);
    paths.key()?;
    let [one, other] = paths.overlap(|path| node.real(path).ok())?;
    let error = SandboxError::from(ChoiceError::Overlap(one, other));
    let (path, line) = place(set, effective.origins.of("annotation-allow"));
    Some(of_sandboxes("annotation-overlap", Severity::Fault, path, &error).at_line(line))
}

/// The file and line of a value; the settings file, where no file has it.
pub(super) fn place(set: &Set<'_>, origin: &Origin) -> (PathBuf, usize) {
    match origin {
        Origin::BuiltIn => (set.settings_file.clone(), 0),
        Origin::File { path, line } => (path.to_path_buf(), *line),
    }
}
