//! `kata-configdev config`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Serialize, Serializer};

use crate::capacity::Capacity;
use crate::cli::CommandError;
use crate::providers::ListingFault;
use crate::settings::{Effective, Origin, Settings};
use crate::{choice, document_pattern, providers};

/// Shows the settings that hold on this node, and where each value came from.
///
/// Reads the settings file and the drop-ins config.d/*.toml beside it. The output is itself a
/// settings file. A document that is a pattern must match exactly one file now, and the kubelet's
/// configuration of credential providers must be usable, or the exit code is 65.
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
        self.settings_file
            .clone()
            .unwrap_or_else(Settings::own_path)
    }
}

/// The settings, as `--json` prints them.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report<'a> {
    files: &'a [PathBuf],
    qemu: BTreeMap<&'a str, Value<'a, &'a Path>>,
    document: DocumentReport<'a>,
    annotation_allow: Value<'a, &'a [PathBuf]>,
    transport: Value<'a, &'static str>,
    capacity: Value<'a, Option<Capacity>>,
    run_root: Value<'a, &'a Path>,
    credential_providers: ProvidersReport<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ProvidersReport<'a> {
    config: Value<'a, Option<&'a Path>>,
    bin_dir: Value<'a, Option<&'a Path>>,
    registries: Value<'a, Vec<String>>,
    deadline_secs: Value<'a, u64>,
    /// The names of the plugins that the configuration has now; `None` where none is asked or it
    /// cannot be used.
    plugins: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Value<'a, T> {
    value: T,
    source: &'a Origin,
}

#[derive(Serialize)]
struct DocumentReport<'a> {
    value: Option<&'a Path>,
    source: &'a Origin,
    /// The file that a sandbox would get now; `None` where there is none, or a pattern does not
    /// match one file.
    file: Option<PathBuf>,
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

/// Prints the effective settings. A pattern that does not find its document is an error, after
/// everything was printed.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let effective = Effective::load(&arguments.settings.path())?;
    let found = effective
        .settings
        .document
        .as_deref()
        .map(choice::resolve)
        .transpose();
    let file = found.as_ref().ok().cloned().flatten();
    let listed = plugins(&effective.settings).transpose();
    let plugins = listed.as_ref().ok().cloned().flatten();
    if arguments.json {
        super::print_json(out, &Report::of(&effective, file, plugins))?;
    } else {
        print(&effective, file.as_deref(), plugins.as_deref(), out)?;
    }
    found?;
    listed?;
    Ok(0)
}

/// The names of the credential providers that a sandbox would find; `None` where none is asked.
fn plugins(settings: &Settings) -> Option<Result<Vec<String>, ListingFault>> {
    let sources = settings.credential_providers.sources()?;
    let listed = providers::read_listing(sources.config);
    let names = listed.map(|listed| {
        let names = listed.list().iter().map(|one| one.name.clone());
        names.collect()
    });
    Some(names)
}

impl<'a> Report<'a> {
    fn of(effective: &'a Effective, file: Option<PathBuf>, plugins: Option<Vec<String>>) -> Self {
        let Effective {
            settings,
            files,
            origins,
        } = effective;
        Self {
            files,
            qemu: binaries(effective)
                .map(|(machine, value, source)| (machine, Value { value, source }))
                .collect(),
            document: DocumentReport {
                value: settings.document.as_deref(),
                source: &origins.document,
                file,
            },
            annotation_allow: Value {
                value: &settings.annotation_allow,
                source: &origins.annotation_allow,
            },
            transport: Value {
                value: settings.transport.name(),
                source: &origins.transport,
            },
            capacity: Value {
                value: settings.capacity,
                source: &origins.capacity,
            },
            run_root: Value {
                value: &settings.run_root,
                source: &origins.run_root,
            },
            credential_providers: ProvidersReport::of(effective, plugins),
        }
    }
}

impl<'a> ProvidersReport<'a> {
    fn of(effective: &'a Effective, plugins: Option<Vec<String>>) -> Self {
        let providers = &effective.settings.credential_providers;
        let origins = &effective.origins.credential_providers;
        Self {
            config: Value {
                value: providers.config.as_deref(),
                source: &origins.config,
            },
            bin_dir: Value {
                value: providers.bin_dir.as_deref(),
                source: &origins.bin_dir,
            },
            registries: Value {
                value: providers
                    .registries
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                source: &origins.registries,
            },
            deadline_secs: Value {
                value: providers.deadline.as_secs(),
                source: &origins.deadline,
            },
            plugins,
        }
    }
}

/// The QEMU binaries by machine type, with their origins.
fn binaries(effective: &Effective) -> impl Iterator<Item = (&str, &Path, &Origin)> {
    let qemu = &effective.settings.qemu;
    effective.origins.qemu.iter().map(|(machine, origin)| {
        let path = qemu.by_machine.get(machine).unwrap_or(&qemu.default);
        (machine.as_str(), path.as_path(), origin)
    })
}

fn print(
    effective: &Effective,
    file: Option<&Path>,
    plugins: Option<&[String]>,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let Effective {
        settings,
        files,
        origins,
    } = effective;
    for path in files {
        comment(out, &path.display().to_string())?;
    }
    match &settings.document {
        Some(document) => {
            line(out, "document", &quoted(document), &origins.document)?;
            if document_pattern::is_pattern(document) {
                let file = file.map_or("no single file".into(), |file| file.display().to_string());
                comment(out, &format!("matches {file}"))?;
            }
        }
        None => writeln!(
            out,
            "# document: none, so sandboxes without the annotation get no disk"
        )?,
    }
    let allowed: Vec<String> = settings
        .annotation_allow
        .iter()
        .map(|path| quoted(path))
        .collect();
    let allowed = format!("[{}]", allowed.join(", "));
    line(out, "annotation-allow", &allowed, &origins.annotation_allow)?;
    let transport = format!("\"{}\"", settings.transport.name());
    line(out, "transport", &transport, &origins.transport)?;
    match settings.capacity {
        Some(capacity) => line(
            out,
            "capacity",
            &capacity.bytes().to_string(),
            &origins.capacity,
        )?,
        None => writeln!(out, "# capacity: what the transport has by itself")?,
    }
    line(
        out,
        "run-root",
        &quoted(&settings.run_root),
        &origins.run_root,
    )?;
    writeln!(out, "\n[qemu]")?;
    for (machine, path, origin) in binaries(effective) {
        line(out, machine, &quoted(path), origin)?;
    }
    print_providers(effective, plugins, out)
}

fn print_providers(
    effective: &Effective,
    plugins: Option<&[String]>,
    out: &mut impl Write,
) -> Result<(), CommandError> {
    let providers = &effective.settings.credential_providers;
    let origins = &effective.origins.credential_providers;
    writeln!(out, "\n[credential-providers]")?;
    for (key, path, origin) in [
        ("config", &providers.config, &origins.config),
        ("bin-dir", &providers.bin_dir, &origins.bin_dir),
    ] {
        match path {
            Some(path) => line(out, key, &quoted(path), origin)?,
            None => writeln!(out, "# {key}: none")?,
        }
    }
    if let Some(plugins) = plugins {
        comment(out, &format!("names {}", plugins.join(", ")))?;
    }
    // Hosts hold nothing that a text of TOML would have to escape.
    let registries: Vec<_> = providers
        .registries
        .iter()
        .map(|host| format!("\"{host}\""))
        .collect();
    let registries = format!("[{}]", registries.join(", "));
    line(out, "registries", &registries, &origins.registries)?;
    let seconds = providers.deadline.as_secs().to_string();
    line(out, "deadline-secs", &seconds, &origins.deadline)
}

fn comment(out: &mut impl Write, text: &str) -> Result<(), CommandError> {
    // As in `line`.
    Ok(writeln!(out, "# {}", crate::lines::on_one_line(text))?)
}

fn line(out: &mut impl Write, key: &str, value: &str, origin: &Origin) -> Result<(), CommandError> {
    // A path may hold what would be a line of its own.
    let text = format!("{key} = {value} # {origin}");
    Ok(writeln!(out, "{}", crate::lines::on_one_line(&text))?)
}

/// A path as TOML writes it. Paths of settings are text, because TOML is.
fn quoted(path: &Path) -> String {
    toml::Value::from(path.to_string_lossy().into_owned()).to_string()
}
