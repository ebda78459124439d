//! Pages of cases: commands, and all that they print.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Folder, Program};

impl Program {
    /// Runs the commands of the page `NAME.md`, and requires that it shows what they print.
    ///
    /// A command is a line `$ COMMAND`, which lines `> MORE` continue. `sh` runs it, with the
    /// directory of the program first in `PATH`, in a temporary folder: a copy of the directory
    /// `NAME`, of mode 0600, and the same for the whole page. The next lines, up to another command
    /// or the end of the block, are `? CODE` where the exit code is not 0, then standard output,
    /// then standard error with `! ` before each line. `[CWD]` is the path of the folder.
    ///
    /// No command prints one of the secrets, but to the standard output of one that succeeds and
    /// that ends with `# secrets`.
    ///
    /// With `CASES=record` the page is written, not compared. No command may end a pipe early, as
    /// `head` does: whether the program still prints its error then varies.
    #[track_caller]
    pub fn cases(&self, page: &str) {
        let inputs = Path::new(page).with_extension("");
        let folder = if inputs.exists() { Folder::copy(inputs) } else { Folder::new() };
        folder.set_mode("", 0o755);
        let programs = Path::new(self.path).parent().unwrap().display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());

        let text = std::fs::read_to_string(page).unwrap();
        let mut shown = String::new();
        let mut lines = text.lines().peekable();
        let mut commands = 0;
        while let Some(line) = lines.next() {
            writeln!(shown, "{line}").unwrap();
            let Some(command) = line.strip_prefix("$ ") else { continue };
            let mut command = command.to_owned();
            while let Some(more) = lines.next_if(|line| line.starts_with("> ")) {
                writeln!(shown, "{more}").unwrap();
                write!(command, "\n{}", &more[2..]).unwrap();
            }
            while lines.next_if(|line| !line.starts_with("$ ") && *line != "```").is_some() {}
            commands += 1;
            // Shown where a test fails.
            eprintln!("$ {command}");
            let mut shell = Command::new("sh");
            let shows = command.ends_with(" # secrets");
            let command = format!("umask 022\n{command}");
            shell.args(["-c", &command]).current_dir(folder.path("")).env("PATH", &path);
            let output = shell.stdin(Stdio::null()).output().unwrap();
            let run = self.check(output, &shell, shows);
            let has_secret = self.secrets.iter().any(|secret| run.stdout.contains(secret));
            assert_eq!(has_secret, shows, "`# secrets` is for commands that print one");
            if run.code != 0 {
                writeln!(shown, "? {}", run.code).unwrap();
            }
            for line in run.stdout.lines() {
                assert!(
                    !line.starts_with("$ ") && line != "```",
                    "reads as the page's own: {line}"
                );
                writeln!(shown, "{line}").unwrap();
            }
            for line in run.stderr.lines() {
                writeln!(shown, "{}{line}", if line.is_empty() { "!" } else { "! " }).unwrap();
            }
        }
        assert_ne!(commands, 0, "{page} has no command");
        let shown = shown.replace(folder.text("").trim_end_matches('/'), "[CWD]");

        if std::env::var_os("CASES").is_some_and(|word| word == "record") {
            return std::fs::write(page, shown).unwrap();
        }
        let printed = Folder::new();
        let diff = ["-u", page, &printed.file("printed", shown)];
        let diff = Command::new("diff").args(diff).output().unwrap();
        assert!(
            diff.status.success(),
            "{page} shows something else than is printed; CASES=record in the environment writes \
             it anew:\n{}",
            String::from_utf8_lossy(&diff.stdout)
        );
    }
}
