//! The help of `fault-registry` teaches scripts that can be read.

use crate::Script;

/// The example of the program's own help.
#[test]
fn the_example_of_the_help_is_a_script() {
    let source = include_str!("../main.rs");
    let (_, example) = source.split_once("/// Example: ").unwrap();
    let lines = example.lines().skip(2).take_while(|line| line.starts_with("///  "));
    let text: String = lines.map(|line| line.trim_start_matches("///")).collect();
    let script: Script = serde_json::from_str(&text).unwrap();
    assert_eq!(script.rules.len(), 1);
}
