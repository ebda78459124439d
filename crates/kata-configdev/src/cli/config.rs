//! `kata-configdev config`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use foreign_text::one_line;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::cli::CommandError;
use crate::namespace::Namespace;
use crate::namespace_path::NamespacePaths;
use crate::node_root::NodeRoot;
use crate::obstacle::obstacles;
use crate::providers::ListingFault;
use crate::settings::{Effective, Origin, Origins, Qemu, Settings, Sources};
use crate::{choice, document_pattern, providers};

/// Shows the settings that hold on this node, and where each value came from.
///
/// Reads the settings file and the drop-ins config.d/*.toml beside it. The output is itself a
/// settings file. The exit code is that of the wrapper where it would refuse sandboxes: QEMU and
/// the document must be there and be usable, the transport must be one of the wrapper's, and so on.
/// A document that is a pattern must match exactly one file now, those of all namespaces must be
/// valid, and the kubelet's configuration of credential providers must be usable.
///
/// kata-configdev doctor looks at the whole node: at Kata's handlers and the engine's, too.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev config
  kata-configdev config --json | jq .document.file"
)]
pub struct Arguments {
    #[command(flatten)]
    settings: SettingsFile,
    /// Print one JSON object: files, and for each key its value and its source.
    #[arg(long)]
    json: bool,
}

/// Which settings file a command reads.
#[derive(Args, Debug)]
pub struct SettingsFile {
    /// The settings file [default: $KATA_CONFIGDEV_CONFIG, or /etc/kata-configdev/config.toml].
    #[arg(long = "settings", value_name = "FILE")]
    settings_file: Option<PathBuf>,
}

impl SettingsFile {
    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.settings_file.clone().unwrap_or_else(Settings::own_path)
    }
}

/// As an object with path and line; `null` for what is built in.
impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Place<'a> {
            path: &'a Path,
            line: usize,
        }
        match self {
            Self::BuiltIn => None,
            Self::File { path, line } => Some(Place { path, line: *line }),
        }
        .serialize(serializer)
    }
}

/// Prints the effective settings. What would keep sandboxes from starting is an error, after
/// everything was printed.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let effective = Effective::load(&arguments.settings.path())?;
    let node = NodeRoot::open(None)?;
    let by_namespace = NamespacePaths::of(&effective.settings).document;
    // What is wrong with those of the namespaces is an obstacle.
    let namespaces =
        by_namespace.map(|paths| choice::namespaces(&node, &paths).unwrap_or_default());
    let document = effective.settings.document.as_deref();
    let document = document.filter(|_| namespaces.is_none());
    let found = match document.map(|path| choice::resolve(&node, path)).transpose() {
        // Sandboxes start all the same.
        Err(error) if error.is_absence() && effective.settings.missing_document.is_some() => {
            Ok(None)
        }
        found => found,
    };
    let listed = plugins(&effective.settings).transpose();
    let obstacles = obstacles(&node, &effective.settings);
    let file = found.as_ref().map_or(None, Option::as_deref);
    let found_now = FoundNow { file, namespaces: namespaces.as_deref() };
    let plugins = listed.as_ref().map_or(None, Option::as_deref);
    if arguments.json {
        let mut report = report(&effective, found_now, plugins);
        let told = obstacles.iter().map(|error| format!("failed to {error}"));
        report["obstacles"] = told.collect();
        super::print_json(out, &report)?;
    } else {
        print(&effective, found_now, plugins, out)?;
    }
    found?;
    listed?;
    obstacles.into_iter().next().map_or(Ok(0), |error| Err(error.into()))
}

/// What the document of the settings leads to now.
#[derive(Clone, Copy)]
struct FoundNow<'a> {
    /// The one file that is there for every sandbox.
    file: Option<&'a Path>,
    /// The namespaces that have a document; `None` where they are not what decides.
    namespaces: Option<&'a [Namespace]>,
}

/// The names of the credential providers that a sandbox would find; `None` where none is asked.
fn plugins(settings: &Settings) -> Option<Result<Vec<String>, ListingFault>> {
    let asked = &settings.credential_providers;
    if !asked.is_wanted() {
        return None;
    }
    let sources = found(settings).ok_or(ListingFault::NotFound);
    let listed = sources.and_then(|found| providers::read_listing(&found.config));
    let names = listed.map(|listed| {
        let names = listed.list().iter().map(|one| one.name.clone());
        names.collect()
    });
    Some(names)
}

/// Where the kubelet's files are, whether the settings say so or not.
fn found(settings: &Settings) -> Option<Sources> {
    settings.credential_providers.sources(Path::new("/"))
}

/// The settings, as `--json` prints them.
fn report(effective: &Effective, found_now: FoundNow<'_>, plugins: Option<&[String]>) -> Value {
    let Effective { settings, origins, .. } = effective;
    let providers = &settings.credential_providers;
    let value = |key: &str, value: Value| json!({"value": value, "source": origins.of(key)});
    let of_providers = |key, found| value(&format!("credential-providers.{key}"), found);
    let qemu = binaries(settings)
        .map(|(machine, path)| (machine.into(), value(&format!("qemu.{machine}"), json!(path))));
    let mut document = json!({
        "value": settings.document,
        "source": origins.of("document"),
        // The file that a sandbox would get now, if there is exactly one.
        "file": found_now.file,
    });
    if let Some(namespaces) = found_now.namespaces {
        document["namespaces"] = json!(namespaces);
    }
    json!({
        "files": effective.files,
        "enabled": value("enabled", json!(settings.enabled)),
        "qemu": qemu.collect::<Map<_, _>>(),
        "document": document,
        "engine": value("engine", json!(settings.engine)),
        "namespace-fallback": value("namespace-fallback", json!(settings.namespace_fallback)),
        "missing-document": value("missing-document", json!(settings.missing_document)),
        "annotation-allow": value("annotation-allow", json!(settings.annotation_allow)),
        "without-spec": value("without-spec", json!(settings.without_spec())),
        "transport": value("transport", json!(settings.transport)),
        "capacity": value("capacity", json!(settings.capacity)),
        "run-root": value("run-root", json!(settings.run_root)),
        "refuse": value("refuse", json!(settings.refuse)),
        "guest-pull": value("guest-pull", json!(settings.guest_pull)),
        "credential-providers": {
            "config": of_providers("config", json!(providers.config)),
            "bin-dir": of_providers("bin-dir", json!(providers.bin_dir)),
            // Where the settings name neither of the two, the places where the kubelet's are.
            "found": found(settings).map(|found| {
                json!({"config": found.config, "bin-dir": found.bin_dir})
            }),
            "registries": of_providers("registries", json!(providers.registries)),
            "deadline-secs": of_providers("deadline-secs", json!(providers.deadline.as_secs())),
            "leave-to-agent": of_providers("leave-to-agent", json!(providers.leave_to_agent)),
            "plugins": plugins,
        },
    })
}

/// The QEMU binaries by machine type.
fn binaries(settings: &Settings) -> impl Iterator<Item = (&str, &PathBuf)> {
    let Qemu { default, by_machine } = &settings.qemu;
    let of_machines = by_machine.iter().map(|(name, path)| (name.as_str(), path));
    std::iter::once(("default", default)).chain(of_machines)
}

/// Prints the settings as a settings file.
fn print(
    effective: &Effective,
    found_now: FoundNow<'_>,
    plugins: Option<&[String]>,
    out: &mut impl Write,
) -> io::Result<()> {
    let Effective { settings, files, origins } = effective;
    let mut text = SettingsText { out, origins, table: String::new() };
    for path in files {
        text.comment(&path.display().to_string())?;
    }
    text.line("enabled", &settings.enabled)?;
    if !settings.enabled {
        text.comment("so nothing below has an effect but qemu")?;
    }
    match &settings.document {
        Some(document) => {
            text.line("document", document)?;
            if let Some(namespaces) = found_now.namespaces {
                let names: Vec<_> = namespaces.iter().map(Namespace::as_str).collect();
                text.comment(&format!("namespaces with a document: {}", names.join(", ")))?;
            } else if document_pattern::is_pattern(document) {
                let file = found_now.file;
                let file = file.map_or("no single file".into(), |file| file.display().to_string());
                text.comment(&format!("matches {file}"))?;
            }
        }
        None => text.comment("document: none, so sandboxes without the annotation get no disk")?,
    }
    match &settings.missing_document {
        Some(reason) => text.line("missing-document", reason)?,
        None => text.comment("missing-document: a sandbox does not start without its document")?,
    }
    if let Some(engine) = settings.engine {
        text.line("engine", &engine)?;
    }
    if found_now.namespaces.is_some() {
        text.line("namespace-fallback", &settings.namespace_fallback)?;
    }
    text.line("annotation-allow", &settings.annotation_allow)?;
    text.line("without-spec", &settings.without_spec())?;
    text.line("transport", &settings.transport)?;
    match settings.capacity {
        Some(capacity) => text.line("capacity", &capacity)?,
        None => text.comment("capacity: what the transport has by itself")?,
    }
    text.line("run-root", &settings.run_root)?;
    text.line("refuse", &settings.refuse)?;
    text.line("guest-pull", &settings.guest_pull)?;
    text.begin("qemu")?;
    for (machine, path) in binaries(settings) {
        text.line(machine, path)?;
    }
    text.begin("credential-providers")?;
    let providers = &settings.credential_providers;
    let found = found(settings);
    let of_kubelet = |path: fn(&Sources) -> &PathBuf| match &found {
        Some(found) => format!("the kubelet's, {}", path(found).display()),
        None => "none".to_owned(),
    };
    for (key, path, by_itself) in [
        ("config", &providers.config, of_kubelet(|found| &found.config)),
        ("bin-dir", &providers.bin_dir, of_kubelet(|found| &found.bin_dir)),
    ] {
        match path {
            Some(path) => text.line(key, path)?,
            None => text.comment(&format!("{key}: {by_itself}"))?,
        }
    }
    if let Some(plugins) = plugins {
        text.comment(&format!("names {}", plugins.join(", ")))?;
    }
    text.line("registries", &providers.registries)?;
    text.line("deadline-secs", &providers.deadline.as_secs())?;
    text.line("leave-to-agent", &providers.leave_to_agent)
}

/// A settings file that is being printed. A path may hold what would be a line of its own, so that
/// each line is made one.
struct SettingsText<'a, W> {
    out: &'a mut W,
    origins: &'a Origins,
    /// The table that the lines belong to, with a dot behind it.
    table: String,
}

impl<W: Write> SettingsText<'_, W> {
    fn begin(&mut self, table: &str) -> io::Result<()> {
        self.table = format!("{table}.");
        writeln!(self.out, "\n[{table}]")
    }

    fn comment(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "# {}", one_line(text))
    }

    fn line(&mut self, key: &str, value: &impl Serialize) -> io::Result<()> {
        let origin = self.origins.of(&format!("{}{key}", self.table));
        let value = toml::Value::try_from(value).map_err(io::Error::other)?;
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let key = match key.bytes().all(is_bare) {
            true => key.to_owned(),
            false => toml::Value::from(key).to_string(),
        };
        let text = format!("{key} = {value} # {origin}");
        writeln!(self.out, "{}", one_line(&text))
    }
}
