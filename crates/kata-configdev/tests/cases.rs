//! The pages of commands and all that they print: `cases/NAME.md`, with files in `cases/NAME`.

use std::collections::BTreeSet;

use test_command::{Program, skipped_without_root};

use crate::command;

/// No command shows one of these, unless its page says so.
const SECRETS: [&str; 5] =
    ["hunter2", "aHVudGVyMi", "cHVsbGVyOmh1bnRlcjI", "cm9ib3Q6aHVudGVyMg", "plugin-user"];
const PROGRAM: Program = Program { secrets: &SECRETS, ..command::PROGRAM };

/// Runs the page of the test, as root where it shows what is said of others' files.
fn page(test: &str) {
    let name = test.trim_start_matches("privileged_");
    if name != test && skipped_without_root("a page of what root's files are said to be") {
        return;
    }
    PROGRAM.cases(&format!("tests/cases/{name}.md"));
}

macro_rules! pages {
    ($($test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                page(stringify!($test));
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
    clouds,
    command_line,
    config,
    credential_provider,
    explain,
    import_by_namespace,
    import_decryption_secret,
    import_docker_config,
    import_registry_files,
    import_repositories,
    inspect,
    new,
    pack,
    policy,
    privileged_check,
    privileged_doctor,
    privileged_import_containerd,
    sandbox,
}
