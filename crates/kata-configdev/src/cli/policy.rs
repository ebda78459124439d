//! `kata-configdev policy`: image policies, checked and explained.

pub(super) mod measured;
mod told;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use image_policy::policy::MAX_POLICY_BYTES;
use image_policy::{InvalidPolicy, Policy};
use oci_image::named::NamedReference;

use super::{CommandError, UsageError};
use crate::exit;
use crate::host_file::read_named;

/// Checks image policies, and says what they ask of an image.
///
/// An image policy says which signatures an image must carry before it runs, in the form of
/// containers-policy.json(5). These commands read a file and nothing else: no key, no registry.
/// A guest asks for the policy that [image-policy] of its measured document names.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
    Explain(Explain),
}

/// Shows what is wrong with a policy, and what it probably does not mean.
///
/// A policy that is not valid gives exit code 65. Warnings are about what is legal: scopes that
/// accept anything, requirements that no image fulfils, identities that are left to the default.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev policy check /etc/containers/policy.json
  kata-configdev policy check --strict policy.json"
)]
struct Check {
    /// The policy.
    file: PathBuf,
    /// Warnings are errors: exit code 65.
    #[arg(long)]
    strict: bool,
}

/// Says which scope of a policy decides for an image, and what it asks for.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev policy explain policy.json registry.corp/team/app:1.2@sha256:..."
)]
struct Explain {
    /// The policy.
    file: PathBuf,
    /// The image, with a tag, a digest or both.
    image: String,
}

pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    match &arguments.command {
        Command::Check(arguments) => check(arguments, out),
        Command::Explain(arguments) => explain(arguments, out),
    }
}

fn check(arguments: &Check, out: &mut impl Write) -> Result<u8, CommandError> {
    let path = arguments.file.display();
    match read(&arguments.file)? {
        Ok(policy) => {
            let kind = if arguments.strict { "error" } else { "warning" };
            for remark in policy.remarks() {
                writeln!(out, "{kind}: {remark}")?;
            }
            let scopes = policy.scope_count();
            let s = if scopes == 1 { "" } else { "s" };
            let (refused, code) = match arguments.strict && !policy.remarks().is_empty() {
                true => (", refused because of --strict", exit::DATA),
                false => ("", 0),
            };
            writeln!(out, "{path}: valid, {scopes} scope{s} and the default{refused}")?;
            Ok(code)
        }
        Err(error) => refuse(&error, out),
    }
}

fn explain(arguments: &Explain, out: &mut impl Write) -> Result<u8, CommandError> {
    let image = NamedReference::parse(&arguments.image)
        .map_err(|error| UsageError::ImageReference(error.to_string()))?;
    let policy = match read(&arguments.file)? {
        Ok(policy) => policy,
        Err(error) => return refuse(&error, out),
    };
    let ruling = policy.ruling(&image);
    writeln!(out, "image: {}", ruling.image())?;
    if told::is_one_of(&ruling) {
        writeln!(out, "{}:", told::ONE_OF)?;
    }
    for (scope, requirements) in told::clauses(&ruling) {
        writeln!(out, "{scope} asks for")?;
        for requirement in requirements {
            writeln!(out, "  - {requirement}")?;
        }
    }
    if let Some(refused) = told::never_resolved(&policy, &image) {
        writeln!(out, "in a guest {refused}")?;
    }
    Ok(0)
}

fn refuse(error: &InvalidPolicy, out: &mut impl Write) -> Result<u8, CommandError> {
    writeln!(out, "problem: {error}")?;
    Ok(exit::DATA)
}

fn read(path: &Path) -> Result<Result<Policy, InvalidPolicy>, CommandError> {
    let text = read_named(path, MAX_POLICY_BYTES)?;
    Ok(Policy::parse(&text))
}
