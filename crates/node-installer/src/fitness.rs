//! Whether the sandboxes of a set would start through the wrapper.

use std::fs::Metadata;

use zeroize::Zeroizing;

use crate::engine::Engine;
use crate::kata::{DropInFate, Survey};
use crate::limits::MAX_EDITED_BYTES;
use crate::node::{Node, Program};
use crate::plan::View;
use crate::rules::{Meaning, SettingsFile};
use crate::{Error, HostPath, Options, Set, edit, wrapper_settings};

/// The longest settings file of the wrapper that is read, as the wrapper has it.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// What is known of a set before anything is written.
pub(crate) struct Fitness {
    pub(crate) view: View,
    pub(crate) problems: Vec<Error>,
    pub(crate) warnings: Vec<String>,
    /// Whether all handlers are there, seen from here, and are those of Kata.
    pub(crate) has_handlers: bool,
    /// Whether a QEMU is not seen from here.
    pub(crate) is_partial: bool,
    /// Whether this version's wrapper would refuse the settings that should be written, with the
    /// drop-ins beside them.
    pub(crate) is_refused: bool,
}

impl Fitness {
    /// Looks at Kata's configuration, at the settings as the wrapper would read them on `node`, and
    /// at every QEMU that it may become. `is_ours` says which files the installer wrote.
    pub(crate) fn of(
        node: &Node,
        options: &Options,
        name: &str,
        set: &Set,
        is_ours: &dyn Fn(&HostPath) -> bool,
    ) -> Self {
        let survey = Survey::of(node, options, name, set, is_ours);
        let mut fitness = Self {
            view: View {
                qemu: survey.qemu.as_ref().map(|(path, _)| path.clone()),
                engine: options.engine.or_else(Engine::of_this_pod),
                guest_pulls: survey.guest_pulls,
                turned_off: None,
                fates: survey.fates,
            },
            problems: Vec::new(),
            warnings: Vec::new(),
            has_handlers: survey.seen.unseen.is_empty()
                && survey.seen.failed.is_empty()
                && !survey.seen.findings.iter().any(|it| it.id == "handler-empty"),
            is_partial: false,
            is_refused: false,
        };
        for finding in survey.seen.findings {
            match finding.is_fault {
                true => fitness.problems.push(Error::KataConfig(finding)),
                false => fitness.warnings.push(finding.to_string()),
            }
        }
        fitness.problems.extend(survey.seen.failed);
        let is_known = fitness.view.is_qemu_known(set);
        if !set.enabled {
            fitness.view.turned_off = standing(node, set).filter(|_| !is_known);
            let is_off = is_known || fitness.view.turned_off.is_some();
            fitness.warnings.push(match is_off {
                true => format!(
                    "the set {name} is turned off (enabled = false): its sandboxes get no \
                    configuration"
                ),
                false => format!(
                    "enabled = false of the set {name} is not written: its QEMU is not known, and \
                    {} has no settings that could be turned off",
                    set.settings_file
                ),
            });
        }
        if !fitness.view.is_engine_known(set) {
            let set = name.to_owned();
            fitness.refuse(Error::Engine { set });
        }
        if is_known {
            let place = survey.qemu.map(|(_, place)| place);
            fitness.settings(node, options, name, set, place.as_deref());
        }
        fitness
    }

    fn settings(
        &mut self,
        node: &Node,
        options: &Options,
        name: &str,
        set: &Set,
        place: Option<&str>,
    ) {
        let text = wrapper_settings::settings_text(options, name, set, &self.view);
        match read(node, options, set, &text) {
            Ok(meaning) => {
                for path in meaning.qemu {
                    self.program(node, options, name, &path.to_string_lossy(), place);
                }
            }
            Err(rule) => {
                let set = name.to_owned();
                self.is_refused = true;
                self.refuse(Error::Settings { set, rule });
            }
        }
    }

    /// Looks for a QEMU, where it can be seen.
    fn program(
        &mut self,
        node: &Node,
        options: &Options,
        name: &str,
        path: &str,
        place: Option<&str>,
    ) {
        let said_by = match (place, self.view.qemu.as_ref()) {
            (Some(place), Some(qemu)) if qemu.as_str() == path => place,
            _ => "qemu of its settings",
        };
        let fault = |rule: String| Error::Qemu {
            set: name.to_owned(),
            path: path.to_owned(),
            place: said_by.to_owned(),
            rule,
        };
        let Ok(path) = HostPath::parse(path) else {
            return;
        };
        let chain = path.chain();
        let whole_node = options.host == std::path::Path::new("/");
        let is_in_sight = whole_node
            || options.binaries.iter().any(|directory| {
                chain.contains(directory) && matches!(node.directory(directory), Ok(Some(_)))
            });
        if !is_in_sight {
            self.is_partial = true;
            self.warnings.push(format!(
                "{path}, the QEMU of the set {name}, is not seen from here; mount its directory \
                and list it in binaries to have it looked at"
            ));
            return;
        }
        match node.program(&path) {
            Ok(Program::There) => {}
            Ok(Program::Link) if !whole_node => {
                self.is_partial = true;
                self.warnings.push(format!(
                    "{path}, the QEMU of the set {name}, is a link to something that is not seen \
                    from here"
                ));
            }
            Ok(Program::Absent | Program::Link) => self.refuse(fault("it is not there".into())),
            Ok(Program::NotExecutable) => self.refuse(fault("it is no program".into())),
            Err(error) => self.refuse(fault(error.to_string())),
        }
    }

    /// Notes a problem with which every sandbox fails: no handler is newly pointed to the wrapper.
    fn refuse(&mut self, problem: Error) {
        self.problems.push(problem);
        for fate in self.view.fates.values_mut() {
            if *fate == DropInFate::Written {
                *fate = DropInFate::Left;
            }
        }
    }
}

/// The settings of `set` that are on the node, turned off; `None` where there are none, or none
/// that can be changed.
fn standing(node: &Node, set: &Set) -> Option<Zeroizing<Vec<u8>>> {
    let (above, name) = set.settings_file.split();
    let directory = node.directory(&above?).ok()??;
    let text = directory.read(name, MAX_EDITED_BYTES).ok()??;
    edit::turned_off(&text).map(Zeroizing::new)
}

/// A file of the wrapper's settings on the node.
type OnNode = (HostPath, Zeroizing<Vec<u8>>, Metadata);

/// Where the wrapper of `set` is turned off by what is on the node now, as file and line: by hand,
/// where the set itself is on. What cannot be read there says nothing.
pub(crate) fn turned_off_at(node: &Node, options: &Options, set: &Set) -> Option<String> {
    standing_meaning(node, options, set)?.ok()?.off
}

/// Whether this version's wrapper would refuse the settings of `set` that are on the node: those of
/// a newer version may have a key that it does not know.
pub(crate) fn is_standing_refused(node: &Node, options: &Options, set: &Set) -> bool {
    standing_meaning(node, options, set).is_some_and(|meaning| meaning.is_err())
}

/// What the settings that are on the node mean; `None` where their directory is not there.
fn standing_meaning(node: &Node, options: &Options, set: &Set) -> Option<Result<Meaning, String>> {
    let (above, name) = set.settings_file.split();
    let directory = node.directory(&above?).ok()??;
    let main = directory.read_file(name, MAX_SETTINGS_BYTES).ok().flatten();
    let main = main.map(|(text, metadata)| Ok((set.settings_file.clone(), text, metadata)));
    let drop_ins = drop_ins(node, options, set).unwrap_or_default();
    let standing: Vec<OnNode> = main.into_iter().chain(drop_ins).flatten().collect();
    let files: Vec<SettingsFile<'_>> = standing.iter().map(on_node).collect();
    Some((options.rules.read)(&files))
}

/// What the planned settings `text` mean together with the drop-ins on the node.
fn read(node: &Node, options: &Options, set: &Set, text: &str) -> Result<Meaning, String> {
    let drop_ins = drop_ins(node, options, set)?;
    let drop_ins: Vec<OnNode> = drop_ins.into_iter().collect::<Result<_, _>>()?;
    let main = SettingsFile {
        path: set.settings_file.as_str().into(),
        text: text.as_bytes(),
        metadata: None,
    };
    let drop_ins = drop_ins.iter().map(on_node);
    let files: Vec<SettingsFile<'_>> = [main].into_iter().chain(drop_ins).collect();
    (options.rules.read)(&files)
}

fn on_node((path, text, metadata): &OnNode) -> SettingsFile<'_> {
    SettingsFile { path: path.as_str().into(), text, metadata: Some(metadata.clone()) }
}

/// The drop-ins beside the settings of `set`, each with its text or with why it has none.
fn drop_ins(
    node: &Node,
    options: &Options,
    set: &Set,
) -> Result<Vec<Result<OnNode, String>>, String> {
    let directory = set.settings_file.split().0;
    let Some(at) = directory.map(|above| above.join("config.d")) else {
        return Ok(Vec::new());
    };
    let Some(open) = node.directory(&at).map_err(|error| error.to_string())? else {
        return Ok(Vec::new());
    };
    let mut drop_ins = Vec::new();
    for (name, _) in open.entries().map_err(|error| error.to_string())? {
        if (options.rules.is_drop_in)(name.as_bytes()) {
            let path = at.join(&name);
            let read = open.read_file(&name, MAX_SETTINGS_BYTES);
            let read = read.map_err(|error| format!("read {path}: {error}"));
            let file = |(text, metadata)| (path, text, metadata);
            drop_ins.extend(read.map(|found| found.map(file)).transpose());
        }
    }
    Ok(drop_ins)
}
