//! Files of cases: inputs, each with what is made of it.

use std::fmt::Write as _;
use std::path::Path;

/// Compares `answer` of each case in the files of `tests/cases/FOLDER` with the recorded answer.
///
/// A case is an input and then its whole answer, in lines that begin with `#>`. Empty lines, and
/// remarks that begin with `##`, may stand before an input. With `CASES=record` in the
/// environment the answers are recorded instead; that of a new case, which still is empty, is `#>`.
#[track_caller]
pub fn hold_cases(folder: &str, answer: impl Fn(&str) -> String) {
    let records = std::env::var_os("CASES").is_some_and(|value| value == "record");
    let folder = Path::new("tests/cases").join(folder);
    let (mut differing, mut cases) = (String::new(), 0);
    for file in std::fs::read_dir(&folder).expect("a folder with cases") {
        let file = file.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        let mut lines = text.split_inclusive('\n').peekable();
        let (mut recorded, mut line) = (String::new(), 1);
        while lines.peek().is_some() {
            let mut part = |is_part: fn(&str) -> bool| {
                let lines = std::iter::from_fn(|| lines.next_if(|line| is_part(line)));
                lines.collect::<String>()
            };
            let remarks = part(|line| line == "\n" || line.starts_with("##"));
            let input = part(|line| !line.starts_with("#>"));
            let expected = part(|line| line.starts_with("#>"));
            assert_ne!(input, "", "{}: no input for {expected}{remarks}", file.display());
            let found: String = answer(&input)
                .lines()
                .map(|line| format!("#> {line}").trim_end().to_owned() + "\n")
                .collect();
            let found = if found.is_empty() { "#>\n".to_owned() } else { found };
            line += remarks.lines().count();
            if found != expected {
                let place = format!("{}:{line}", file.display());
                writeln!(differing, "{place}\n{input}{expected}--- is now\n{found}").unwrap();
            }
            line += input.lines().count() + expected.lines().count();
            recorded += &[remarks, input, found].concat();
            cases += 1;
        }
        if records && recorded != text {
            std::fs::write(&file, recorded).unwrap();
        }
    }
    assert_ne!(cases, 0, "no case in {}", folder.display());
    let cure = "if that is meant, record it by the same test with CASES=record";
    assert!(records || differing.is_empty(), "cases differ; {cure}\n{differing}");
}

/// The lines of two answers to one input; one that only one of them has begins with its name.
#[must_use]
pub fn side_by_side(first: (&str, &str), second: (&str, &str)) -> String {
    let only = |(name, text): (&str, &str), other: &str| {
        let has = |line: &str| other.lines().any(|of_other| of_other == line);
        let prefix = |line| if has(line) { String::new() } else { format!("{name}: ") };
        text.lines().map(|line| (has(line), prefix(line) + line)).collect::<Vec<_>>()
    };
    let of_second = only(second, first.1).into_iter().filter(|(is_common, _)| !is_common);
    let lines = only(first, second.1).into_iter().chain(of_second).map(|(_, line)| line + "\n");
    lines.collect()
}
