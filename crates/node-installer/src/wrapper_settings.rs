//! The text of a set's settings file: what the administrator says, and what the installer knows.

use crate::engine::Engine;
use crate::options::{NamespaceFallback, QEMU_OF_KATA};
use crate::plan::{View, document_path, group_directory};
use crate::{HostPath, Options, Set, arrival};

/// A path in the place of one that is not known, where only the form counts.
const UNKNOWN_QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// An engine in the place of one that is not known, where only the form counts.
const UNKNOWN_ENGINE: Engine = Engine::Containerd;

/// What the wrapper puts the name of the pod's namespace in the place of.
pub(crate) const NAMESPACE: &str = "{namespace}";

/// The setting with the directories of the documents that pods may name.
pub(crate) const ANNOTATION_ALLOW: &str = "annotation-allow";

/// The setting that says that guests pull, so that a refusal which a guest's puller tells is read.
const GUEST_PULL: &str = "guest-pull";

/// How images get to the hypervisor.
const TRANSPORT: &str = "transport";

/// The text of a set's settings file. What the administrator says of `guest-pull` wins over
/// what Kata's configuration says.
pub(crate) fn settings_text(options: &Options, name: &str, set: &Set, view: &View) -> String {
    let mut settings = set.settings.clone();
    if !set.enabled {
        settings.insert("enabled".into(), false.into());
    }
    put_qemu(&mut settings, set, view);
    if view.guest_pulls {
        settings.entry(GUEST_PULL).or_insert(true.into());
    }
    if options.sandboxes {
        // The only one of the wrapper's that an update reaches.
        settings.entry(TRANSPORT).or_insert("file".into());
    }
    put_documents(&mut settings, options, name, set, view);
    let told = || arrival::before_the_first_pass(set).into();
    settings.entry(arrival::MISSING_DOCUMENT).or_insert_with(told);
    format!(
        "# Written by the node installer of kata-configdev; change its configuration \
        instead.\n{settings}"
    )
}

/// Puts in which documents sandboxes get.
fn put_documents(
    settings: &mut toml::Table,
    options: &Options,
    name: &str,
    set: &Set,
    view: &View,
) {
    let mut put = |key: &str, value: toml::Value| settings.insert(key.into(), value);
    let own = document_path(options, name).as_str().to_owned();
    let group = set.namespace_group();
    if group.is_used() {
        let directory = group_directory(options, name, &group);
        put("document", format!("{directory}/{NAMESPACE}.toml").into());
        let fallback = match set.namespace_fallback {
            NamespaceFallback::Refuse => "refuse".into(),
            NamespaceFallback::None => "none".into(),
            NamespaceFallback::Document => own,
        };
        put("namespace-fallback", fallback.into());
    } else {
        put("document", own.into());
    }
    if set.needs_engine() {
        let engine = view.engine.unwrap_or(UNKNOWN_ENGINE);
        put("engine", engine.name().into());
    }
    let group = set.annotation_group();
    if group.is_used() {
        let directory = group_directory(options, name, &group).as_str().to_owned();
        let allowed = settings.entry(ANNOTATION_ALLOW);
        // The rules of the settings refuse what is no list.
        if let toml::Value::Array(allowed) = allowed.or_insert_with(|| toml::Value::Array(vec![]))
            && !allowed.iter().any(|one| one.as_str() == Some(directory.as_str()))
        {
            allowed.push(directory.into());
        }
    }
}

/// Puts the path that Kata's configuration has in the place of `qemu = "kata"`.
fn put_qemu(settings: &mut toml::Table, set: &Set, view: &View) {
    // Nobody has a configuration to take it from; the wrapper has a default.
    if set.handlers.is_empty() && !set.settings.contains_key("qemu") {
        return;
    }
    let path = view.qemu.as_ref().map_or(UNKNOWN_QEMU, HostPath::as_str);
    let put = |value: &mut toml::Value| {
        if value.as_str() == Some(QEMU_OF_KATA) {
            *value = path.into();
        }
    };
    match settings.entry("qemu").or_insert(QEMU_OF_KATA.into()) {
        toml::Value::Table(machines) => machines.iter_mut().for_each(|(_, path)| put(path)),
        path => put(path),
    }
}
