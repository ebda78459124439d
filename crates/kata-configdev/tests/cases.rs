//! The pages of commands and all that they print: `cases/NAME.md`, with files in `cases/NAME`.

use std::collections::BTreeSet;

use test_command::{Program, skipped_without_root};

use crate::command;

/// No page shows one of these, nor does what is recorded anew.
const SECRETS: [&str; 5] =
    ["hunter2", "aHVudGVyMi", "cHVsbGVyOmh1bnRlcjI", "cm9ib3Q6aHVudGVyMg", "plugin-user"];
const PROGRAM: Program = Program { secrets: &SECRETS, ..command::PROGRAM };

/// Where it succeeds.
const PRINTS_SECRETS: Program = Program { prints_document: true, ..PROGRAM };

/// Runs the page of the test, as root where it shows what is said of others' files.
fn page(test: &str, program: Program) {
    let name = test.trim_start_matches("privileged_");
    if name != test && skipped_without_root("a page of what root's files are said to be") {
        return;
    }
    program.cases(&format!("tests/cases/{name}.md"));
}

macro_rules! pages {
    ($($test:ident: $program:expr,)*) => {
        $(
            #[test]
            fn $test() {
                page(stringify!($test), $program);
            }
        )*

        #[test]
        fn every_page_has_a_test() {
            let files = std::fs::read_dir("tests/cases").unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            let names: BTreeSet<String> = names.map(|name| name.replace(".md", "")).collect();
            let tests = [$(stringify!($test)),*].map(|test| test.replace("privileged_", ""));
            assert_eq!(names, BTreeSet::from(tests));
        }
    };
}

pages! {
    clouds: PROGRAM,
    command_line: PROGRAM,
    config: PROGRAM,
    credential_provider: PRINTS_SECRETS,
    explain: PROGRAM,
    inspect: PROGRAM,
    policy: PROGRAM,
    privileged_check: PROGRAM,
    privileged_doctor: PROGRAM,
    privileged_new: PRINTS_SECRETS,
    privileged_pack: PROGRAM,
    sandbox: PROGRAM,
}
