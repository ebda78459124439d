//! The kubelet's credential providers, as the wrapper would find them.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::finding::{Finding, Severity};
use super::set::Set;
use crate::host_file::{FileFault, require_administered};
use crate::node_root::NodeRoot;
use crate::providers::{self, ListingFault, read_listing};
use crate::settings::{Sources, kubelet_sources};

/// Whether the providers that the settings of `set` ask are there, and which of them only the
/// kubelet can ask.
pub fn check(node: &NodeRoot, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(settings) = set.settings().filter(|settings| settings.enabled) else {
        return;
    };
    let path = &set.settings_file;
    let asked = &settings.credential_providers;
    if !asked.is_wanted() {
        if let Some(found) = kubelet_sources(node.path()) {
            let message = "the kubelet has credential providers, and [credential-providers] of the \
                wrapper's settings asks none, so that guests do not get what they say; add \
                registries there if they should";
            let config = node.of_node(&found.config);
            findings.push(Finding::new("providers-not-asked", Severity::Note, config, message));
        }
        return;
    }
    let warning =
        |id, path: &Path, message: String| Finding::new(id, Severity::Warning, path, message);
    let Some(Sources { config, bin_dir }) = asked.sources(node.path()) else {
        let message = format!("{}, so that no provider is asked", ListingFault::NotFound);
        findings.push(warning("providers-not-found", path, message));
        return;
    };
    let config_on_node = node.of_node(&config);
    let listed = match read_listing(&config) {
        Ok(listed) => listed,
        Err(error) => {
            let message = format!(
                "the kubelet's configuration of its credential providers cannot be used ({}), so \
                that none is asked; correct it",
                node.told(&error.to_string())
            );
            findings.push(warning("providers-invalid", &config_on_node, message));
            return;
        }
    };
    let bin_dir = node.of_node(&bin_dir);
    if let Err(fault) = administered(node, &bin_dir) {
        let message =
            format!("{fault}, so that no credential provider in it is asked: {}", fault.remedy());
        findings.push(warning("provider-access", &bin_dir, message));
    }
    for uncovered in providers::uncovered(&asked.registries, listed.list()) {
        let message = format!("{}: {uncovered}", uncovered.source);
        let id = "provider-pattern";
        findings.push(Finding::new(id, Severity::Note, &config_on_node, message));
    }
    for provider in listed.list() {
        let program = bin_dir.join(&provider.name);
        if let Some((id, message)) = unusable(node, &program) {
            findings.push(warning(id, &program, message));
        }
        if provider.wants_token {
            let message = format!(
                "{} wants a service account's token (tokenAttributes), which only the kubelet \
                has, so that no guest gets what it says; for the kubelet itself the group \
                system:nodes needs two rights: the verb request-serviceaccounts-token-audience on \
                the resource that is named like serviceAccountTokenAudience, and get on \
                serviceaccounts; without one of them it pulls anonymously",
                foreign_text::shown(&provider.name)
            );
            let id = "provider-wants-token";
            findings.push(Finding::new(id, Severity::Note, &config_on_node, message));
        }
    }
}

/// Whether only the administrator can have put it there, which the wrapper wants to know before it
/// starts a program as root. What is not there at all is told otherwise.
fn administered(node: &NodeRoot, path: &Path) -> Result<Option<Metadata>, FileFault> {
    match node.metadata(path) {
        Ok(found) => require_administered(&found).map(|()| Some(found)),
        Err(_) => Ok(None),
    }
}

/// Why a provider's program is not started, if so.
fn unusable(node: &NodeRoot, program: &Path) -> Option<(&'static str, String)> {
    let found = match administered(node, program) {
        Ok(found) => found.filter(Metadata::is_file),
        Err(fault) => {
            let message = format!(
                "{fault}, so that this credential provider is not asked: {}",
                fault.remedy()
            );
            return Some(("provider-access", message));
        }
    };
    let Some(found) = found else {
        let message = "a credential provider whose program is not there, so that it is not asked; \
            install it, or take it out of the kubelet's configuration";
        return Some(("provider-missing", message.to_owned()));
    };
    let is_executable = found.permissions().mode() & 0o111 != 0;
    let message = "a credential provider whose program cannot be executed, so that it answers \
        nothing; make it executable (chmod +x)";
    (!is_executable).then(|| ("provider-not-executable", message.to_owned()))
}
