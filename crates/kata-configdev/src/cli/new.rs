//! `kata-configdev new`.

mod entry;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use credential_sources::Offer;
use credential_sources::registry_file::{self, MAX_CA_FILE_BYTES};
use foreign_text::bounded::read_stream;
use foreign_text::one_line;
use registry_config::credential_rule::without_line_end;
use registry_config::{Credentials, Document, MAX_CREDENTIAL_BYTES, RegistryName, Roots, Secret};
use zeroize::Zeroizing;

use super::finding::{self, Input};
use super::import::outcome::label;
use super::import::target::Target;
use crate::cli::{CommandError, UsageError};
use crate::exit;
use crate::host_file::{FileFault, read_named};

/// Writes the first document, or adds a registry to one: an account, its certificate authorities.
///
/// The password is read from standard input; no argument takes one. CA certificates stand in the
/// document itself, because guests have no files of the node. What `check` would warn about goes to
/// standard error.
///
/// Without --output and --into the document goes to standard output, with the password: umask 077
/// keeps the file that it is written to from other users.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    group(ArgGroup::new("content").required(true).multiple(true).args(["user", "ca"])),
    after_help = "\
Examples:
  pass show registry.corp | kata-configdev new --registry registry.corp --user puller \\
    --password-stdin --ca /etc/ssl/corp.pem --output imagepuller.toml
  pass show quay.io | kata-configdev new --into imagepuller.toml --registry quay.io/team \\
    --user team+robot --password-stdin
  kata-configdev new --registry . --ca /etc/ssl/corp-proxy.pem --output imagepuller.toml"
)]
pub struct Arguments {
    /// The registry, as in registry.corp, registry.corp:5000 or quay.io/team; .corp is every host
    /// below corp, and "." every host.
    #[arg(long, value_name = "NAME")]
    registry: String,
    /// The account's user name.
    #[arg(long, value_name = "USER", requires = "password_stdin")]
    user: Option<String>,
    /// Read the account's password from standard input, up to its end; a line end there is not part
    /// of it, unless there are more: then the password is a file, such as Google's key.json.
    #[arg(long, requires = "user")]
    password_stdin: bool,
    /// The PEM certificates in this file are all that is trusted at the registry, instead of the
    /// web's; "-" for standard input.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Writes the document that `arguments` describe.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let name = RegistryName::parse(&arguments.registry);
    let name = name.map_err(|rule| {
        let rule = rule.to_string();
        // Some say what to write instead, which is said of all.
        let fault = rule.split(": write").next().unwrap_or_default();
        UsageError::RegistryName(fault.to_owned())
    })?;
    let target = &arguments.target;
    let password = arguments.password_stdin.then(|| PathBuf::from("-"));
    target.require(arguments.ca.iter().chain(&password))?;

    let base = target.base()?;
    let mut text = match &base {
        None => Zeroizing::new(Vec::new()).into(),
        Some(input) => match Document::parse(&input.text) {
            Ok(_) => input.text.clone(),
            Err(problems) => {
                let path = target.base_name();
                let mut err = io::stderr();
                finding::print(&mut err, Path::new(&path), "", &input.findings(&problems))?;
                writeln!(err, "{path}: not valid, nothing was written")?;
                return Ok(exit::DATA);
            }
        },
    };
    if let Some(path) = &arguments.ca {
        text = entry::with_roots(&text, &name, certificates(path)?)?;
    }
    if let Some(user) = &arguments.user {
        let offer = Offer {
            name: name.written(),
            offered: Credentials::Basic { username: user.clone(), password: password_of_stdin()? },
            source: "the account".into(),
        };
        text = entry::with_account(&text, &offer)?;
    }
    let all = [target.header().as_bytes(), &text].concat();
    let input = Input::of(Zeroizing::new(all).into(), None);
    let told = target.file().unwrap_or(Path::new("the new document"));
    if !finding::is_valid(&input, told, "nothing was written")? {
        return Ok(exit::DATA);
    }
    target.write(base.as_ref(), &input.text, out)?;
    Ok(0)
}

/// The certificates of a file; what else is in it is told.
fn certificates(path: &Path) -> Result<Roots, CommandError> {
    let bytes = read_named(path, MAX_CA_FILE_BYTES)?;
    let unread =
        |reason: &str| CommandError::Certificates { path: path.into(), reason: reason.to_owned() };
    let (roots, count) = registry_file::certificates(&bytes).map_err(unread)?;
    if count > 0 {
        let note = format!(
            "{}: note: what is no certificate is left out: {count} of its blocks",
            label(path)
        );
        writeln!(io::stderr(), "{}", one_line(&note))?;
    }
    Ok(roots)
}

/// The password, without the line end of an editor or of `echo` behind a single line.
fn password_of_stdin() -> Result<Secret, CommandError> {
    let unread = |fault: FileFault| fault.at("standard input");
    let bytes = read_stream(io::stdin().lock(), MAX_CREDENTIAL_BYTES + "\r\n".len())
        .map_err(|error| unread(error.into()))?;
    let text = str::from_utf8(without_line_end(&bytes))
        .map_err(|_| CommandError::Password("is not UTF-8 text"))?;
    if text.is_empty() {
        return Err(CommandError::Password("is empty"));
    }
    // A key.json is meant as a whole; an entry of a password manager has other lines.
    if text.contains('\n') && !text.starts_with('{') {
        writeln!(
            io::stderr(),
            "standard input: note: the password has several lines; where only the first is meant, \
            pipe that, as in `pass show NAME | head -n1`"
        )?;
    }
    Ok(Zeroizing::new(text.to_owned()).into())
}
