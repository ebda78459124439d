//! The environment that systemd gives a service, as `systemctl show` prints it.
//!
//! systemd has read the unit and its drop-ins. The files of `EnvironmentFile=` it only names, and
//! they are read here. The variables that every service gets are those of `systemctl show` without
//! a name; the values of `PassEnvironment=` are printed nowhere.
//!
//! From systemd's manual, systemd.exec(5), and its `bus-print-properties.c`, `escape.c`,
//! `env-file.c`.

mod environment_file;

use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::node_files::{Hidden, NodeFiles, is_pattern, matching};
use crate::printable;
use crate::registry_file::Report;

/// The longest output of `systemctl show`, and file of variables. Free to change.
pub const MAX_UNIT_BYTES: usize = 256 << 10;

/// The most files of variables of a unit. Free to change.
const MAX_UNIT_FILES: usize = 64;

/// The arguments of `systemctl` in front of the services' names.
pub const SHOW: [&str; 10] = [
    "show",
    "--property=Id",
    "--property=Names",
    "--property=ExecStart",
    "--property=LoadState",
    "--property=ActiveState",
    "--property=Environment",
    "--property=EnvironmentFiles",
    "--property=PassEnvironment",
    "--property=UnsetEnvironment",
];

/// Variables by name, in no order; a later value has replaced an earlier one.
pub type Variables = std::collections::BTreeMap<String, Zeroizing<String>>;

/// A service, as `systemctl show` prints it.
#[derive(Clone, Copy)]
pub struct Unit<'t>(&'t str);

/// Its environment may hold secrets.
impl fmt::Debug for Unit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unit({:?})", self.property("Id"))
    }
}

/// The services in the output of `systemctl show`, which has an empty line between them.
pub fn units(shown: &str) -> impl Iterator<Item = Unit<'_>> {
    let units = shown.split("\n\n").filter(|unit| !unit.trim().is_empty());
    units.map(Unit)
}

impl<'t> Unit<'t> {
    /// The values of a property, a line each.
    fn all(self, name: &str) -> impl Iterator<Item = &'t str> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        lines.filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }

    /// A property, if it was asked for and is not empty.
    #[must_use]
    pub fn property(self, name: &str) -> Option<&'t str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// Whether a service has this name, if it has any.
    #[must_use]
    pub fn is_called(self, name: &str) -> bool {
        let mut names = self.all("Id").chain(self.all("Names")).flat_map(str::split_whitespace);
        names.any(|known| known == name)
    }

    /// The value of an option that the service hands to a program, `NAME VALUE` or `NAME=VALUE`;
    /// what stands in front of the program, such as a shell's options, is not its own.
    #[must_use]
    pub fn option(self, program: &str, name: &str) -> Option<&'t str> {
        let (_, arguments) = self.property("ExecStart")?.split_once("argv[]=")?;
        let mut words = arguments.split(" ; ").next()?.split(' ');
        words.find(|word| word.rsplit('/').next() == Some(program))?;
        while let Some(word) = words.next() {
            match word.strip_prefix(name) {
                Some("") => return words.next(),
                Some(rest) if rest.starts_with('=') => return rest.get(1..),
                _ => {}
            }
        }
        None
    }

    /// Adds the environment of the service, which messages call `source`. Only variables that are
    /// `wanted` are kept, since others may be secrets too. Faults are what systemd would not start
    /// the service with.
    pub fn add_environment(
        self,
        variables: &mut Variables,
        source: &str,
        wanted: &dyn Fn(&str) -> bool,
        files: &mut dyn NodeFiles,
        report: &mut Report,
    ) {
        if let Some(state @ ("not-found" | "bad-setting" | "error")) = self.property("LoadState") {
            report.fault(source, "", format!("systemd does not load it: {state}"));
        }
        let mut assign = |name: &str, value: &str| {
            if wanted(name) {
                variables.insert(name.to_owned(), Zeroizing::new(value.to_owned()));
            }
        };
        // A file of variables in the place of the output.
        environment_file::assignments(self.0, &mut assign);
        for word in self.words("Environment") {
            match word.split_once('=') {
                Some((name, value)) if value.contains(char::REPLACEMENT_CHARACTER) => {
                    if wanted(name) {
                        let text = format!("{name} is left out: it has a control character");
                        report.lost(source, "Environment", text);
                    }
                }
                Some((name, value)) => assign(name, value),
                None => {
                    let text =
                        "a part is left out: this version of systemctl does not quote values";
                    report.lost(source, "Environment", text);
                }
            }
        }
        // Files win over assignments, later ones over earlier ones.
        let mut left = MAX_UNIT_FILES;
        for value in self.all("EnvironmentFiles") {
            let file = EnvironmentFile::of(value, source);
            let paths = file.paths(left, files, report);
            // To look for none costs time too.
            left = left.saturating_sub(paths.len().max(1));
            for path in paths {
                file.read(&path, &mut assign, files, report);
            }
        }
        for name in self.words("PassEnvironment") {
            if wanted(&name) && !variables.contains_key(&*name) {
                let text = format!("{} is left out: only the manager knows its value", &*name);
                report.lost(source, "PassEnvironment", text);
            }
        }
        for unset in self.words("UnsetEnvironment") {
            let (name, value) =
                unset.split_once('=').map_or((&**unset, None), |(name, value)| (name, Some(value)));
            if value.is_none_or(|value| variables.get(name).is_some_and(|known| **known == value)) {
                variables.remove(name);
            }
        }
    }

    fn words(self, name: &str) -> impl Iterator<Item = Zeroizing<String>> {
        self.all(name).flat_map(words)
    }
}

/// The words of a value, quoted as `systemctl` quotes for a shell.
fn words(value: &str) -> Vec<Zeroizing<String>> {
    // Large enough from the start: a string that grows leaves copies of its secrets behind.
    let new = || Zeroizing::new(String::with_capacity(value.len()));
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None, false);
    let mut rest = value.chars();
    while let Some(next) = rest.next() {
        match next {
            ' ' if !is_quoted => words.extend(word.take()),
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_with(new);
            }
            // A letter stands for a control character, which no address has.
            '\\' => word.get_or_insert_with(new).extend(rest.next().map(|next| {
                if next.is_ascii_alphanumeric() { char::REPLACEMENT_CHARACTER } else { next }
            })),
            other => word.get_or_insert_with(new).push(other),
        }
    }
    words.extend(word);
    words
}

struct EnvironmentFile<'t> {
    path: &'t str,
    is_optional: bool,
    /// The service that has it.
    source: &'t str,
}

impl<'t> EnvironmentFile<'t> {
    fn of(value: &'t str, source: &'t str) -> Self {
        let optional = value.strip_suffix(" (ignore_errors=yes)");
        let path = optional.or_else(|| value.strip_suffix(" (ignore_errors=no)")).unwrap_or(value);
        Self { path, is_optional: optional.is_some(), source }
    }

    /// The files that the path stands for.
    fn paths(&self, limit: usize, files: &mut dyn NodeFiles, report: &mut Report) -> Vec<PathBuf> {
        let path = Path::new(self.path);
        let found = match is_pattern(self.path) && limit > 0 {
            false => vec![path.to_owned()],
            true => matching(path, Hidden::Skipped, limit, files).unwrap_or_default(),
        };
        if found.len() > limit {
            let text = format!("more than {MAX_UNIT_FILES} files of variables");
            report.fault(self.source, "EnvironmentFiles", text);
            return Vec::new();
        }
        if found.is_empty() && !self.is_optional {
            let text = "no file has such a name, and systemd would not start the service";
            report.fault(self.source, "EnvironmentFiles", text);
        }
        found
    }

    fn read(
        &self,
        path: &Path,
        assign: &mut dyn FnMut(&str, &str),
        files: &mut dyn NodeFiles,
        report: &mut Report,
    ) {
        match files.read(path, MAX_UNIT_BYTES) {
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                environment_file::assignments(&text, assign);
            }
            Err(_) if self.is_optional => {}
            Err(why) => {
                let text = format!("{why}, and systemd would not start the service");
                report.fault(&printable(&path.to_string_lossy()), "", text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_program() {
        for (arguments, expected) in [
            ("/usr/bin/containerd --config /a", Some("/a")),
            ("/usr/bin/containerd --configs /b --config=/a", Some("/a")),
            ("/bin/sh -c exec containerd -c /a", Some("/a")),
            ("/bin/sh -c exec other", None),
            ("/usr/bin/containerd --config", None),
        ] {
            let shown = format!("ExecStart={{ path=/x ; argv[]={arguments} ; ignore_errors=no }}");
            let option = |name| Unit(&shown).option("containerd", name);
            assert_eq!(option("--config").or_else(|| option("-c")), expected, "{arguments}");
        }
    }

    #[test]
    fn words_are_quoted_as_systemctl_quotes_them() {
        for (value, expected) in [
            ("A=1 B=ä D=", &["A=1", "B=ä", "D="][..]),
            ("\"A=a b\" \"E=it's\"", &["A=a b", "E=it's"]),
            (r#""A=a\"b\\c\$d\`e" B=c"#, &["A=a\"b\\c$d`e", "B=c"]),
            (r#""C=x\ty""#, &["C=x\u{fffd}y"]),
            ("\"\" A", &["", "A"]),
            ("A \"B\\", &["A", "B"]),
            ("", &[]),
        ] {
            let found = words(value);
            let found: Vec<_> = found.iter().map(|word| word.as_str()).collect();
            assert_eq!(found, expected, "{value}");
        }
    }
}
