//! `kata-configdev config`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use foreign_text::one_line;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::cli::CommandError;
use crate::namespace::Namespace;
use crate::namespace_path::NamespacePaths;
use crate::node_root::NodeRoot;
use crate::obstacle::obstacles;
use crate::providers::ListingFault;
use crate::settings::{Effective, Origin, Origins, Settings, Sources};
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

/// The settings with what stands for a key that says nothing by itself.
fn shown(settings: &Settings) -> Settings {
    Settings { without_spec: Some(settings.without_spec()), ..settings.clone() }
}

/// The settings, as `--json` prints them.
fn report(effective: &Effective, found_now: FoundNow<'_>, plugins: Option<&[String]>) -> Value {
    let Effective { settings, origins, files } = effective;
    let mut report = placed("", json!(shown(settings)), origins);
    report["files"] = json!(files);
    // The file that a sandbox would get now, if there is exactly one.
    report["document"]["file"] = json!(found_now.file);
    if let Some(namespaces) = found_now.namespaces {
        report["document"]["namespaces"] = json!(namespaces);
    }
    let providers = &mut report["credential-providers"];
    // Where the settings name neither of the two, the places where the kubelet's are.
    let found = found(settings);
    let found = found.map(|found| json!({"config": found.config, "bin-dir": found.bin_dir}));
    providers["found"] = json!(found);
    providers["plugins"] = json!(plugins);
    report
}

/// Each value of a table with its source; `prefix` begins the keys.
fn placed(prefix: &str, value: Value, origins: &Origins) -> Value {
    match value {
        Value::Object(table) => {
            let dot = if prefix.is_empty() { "" } else { "." };
            let placed = table.into_iter().map(|(name, value)| {
                let value = placed(&format!("{prefix}{dot}{name}"), value, origins);
                (name, value)
            });
            placed.collect()
        }
        value => json!({"value": value, "source": origins.of(prefix)}),
    }
}

/// Prints the settings as a settings file.
fn print(
    effective: &Effective,
    found_now: FoundNow<'_>,
    plugins: Option<&[String]>,
    out: &mut impl Write,
) -> io::Result<()> {
    let Effective { settings, files, origins } = effective;
    let values = toml::Table::try_from(shown(settings)).map_err(io::Error::other)?;
    let mut text = SettingsText { out, origins, values };
    for path in files {
        text.comment(&path.display().to_string())?;
    }
    text.line("enabled", "")?;
    if !settings.enabled {
        text.comment("so nothing below has an effect but qemu")?;
    }
    text.line("document", "none, so sandboxes without the annotation get no disk")?;
    if let Some(namespaces) = found_now.namespaces {
        let names: Vec<_> = namespaces.iter().map(Namespace::as_str).collect();
        text.comment(&format!("namespaces with a document: {}", names.join(", ")))?;
    } else if settings.document.as_deref().is_some_and(document_pattern::is_pattern) {
        let file = found_now.file;
        let file = file.map_or("no single file".into(), |file| file.display().to_string());
        text.comment(&format!("matches {file}"))?;
    }
    text.line("missing-document", "a sandbox does not start without its document")?;
    if settings.engine.is_some() {
        text.line("engine", "")?;
    }
    if found_now.namespaces.is_some() {
        text.line("namespace-fallback", "")?;
        if settings.namespace_base.is_some() {
            text.line("namespace-base", "")?;
        }
    }
    for key in ["annotation-allow", "without-spec", "transport"] {
        text.line(key, "")?;
    }
    text.line("capacity", "what the transport has by itself")?;
    for key in ["run-root", "refuse", "guest-pull"] {
        text.line(key, "")?;
    }
    text.begin("qemu")?;
    text.line("qemu.default", "")?;
    for machine in settings.qemu.by_machine.keys() {
        text.line(&format!("qemu.{machine}"), "")?;
    }
    text.begin("credential-providers")?;
    let found = found(settings);
    let of_kubelet = |path: fn(&Sources) -> &PathBuf| match &found {
        Some(found) => format!("the kubelet's, {}", path(found).display()),
        None => "none".to_owned(),
    };
    text.line("credential-providers.config", &of_kubelet(|found| &found.config))?;
    text.line("credential-providers.bin-dir", &of_kubelet(|found| &found.bin_dir))?;
    if let Some(plugins) = plugins {
        text.comment(&format!("names {}", plugins.join(", ")))?;
    }
    for key in ["registries", "deadline-secs", "leave-to-agent"] {
        text.line(&format!("credential-providers.{key}"), "")?;
    }
    Ok(())
}

/// A settings file that is being printed. A path may hold what would be a line of its own, so that
/// each line is made one.
struct SettingsText<'a, W> {
    out: &'a mut W,
    origins: &'a Origins,
    values: toml::Table,
}

impl<W: Write> SettingsText<'_, W> {
    fn begin(&mut self, table: &str) -> io::Result<()> {
        writeln!(self.out, "\n[{table}]")
    }

    fn comment(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "# {}", one_line(text))
    }

    /// Prints the value of `key` with its origin, or what is so by itself.
    fn line(&mut self, key: &str, by_itself: &str) -> io::Result<()> {
        let (table, name) = key.split_once('.').unwrap_or(("", key));
        let values = self.values.get(table).and_then(toml::Value::as_table);
        match values.unwrap_or(&self.values).get(name) {
            Some(value) => {
                let text = format!("{name} = {value} # {}", self.origins.of(key));
                writeln!(self.out, "{}", one_line(&text))
            }
            None => self.comment(&format!("{name}: {by_itself}")),
        }
    }
}
