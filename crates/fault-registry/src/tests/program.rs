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

/// Each word that the help offers is an action or a part of one.
#[test]
fn the_actions_of_the_help_exist() {
    let source = include_str!("../main.rs");
    let (_, actions) = source.split_once("done in order:").unwrap();
    let (actions, _) = actions.split_once("/// Example").unwrap();
    let text = actions.replace("///", " ").replace('\n', " ");
    let mut count = 0;
    for action in alternatives(&text) {
        let rule = format!(r#"{{"rules": [{{"what": "any", "do": [{action}]}}]}}"#);
        serde_json::from_str::<Script>(&rule).unwrap_or_else(|error| panic!("{action}: {error}"));
        count += 1;
    }
    assert!(count > 50, "{count}");
}

/// Takes `{"a": X | Y}` apart into `{"a": X}` and `{"a": Y}`.
fn alternatives(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for action in top_level(text) {
        let mut pending = vec![action];
        while let Some(action) = pending.pop() {
            match choice(&action) {
                Some(choices) => pending.extend(choices),
                None => found.push(action),
            }
        }
    }
    found
}

/// The JSON values that stand one after another.
fn top_level(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut depth = 0;
    let mut value = String::new();
    for character in text.chars() {
        depth +=
            i32::from(matches!(character, '{' | '[')) - i32::from(matches!(character, '}' | ']'));
        if character == ' ' && depth == 0 {
            values.push(std::mem::take(&mut value));
        } else {
            value.push(character);
        }
    }
    values.push(value);
    values.retain(|value| !value.is_empty());
    values
}

/// The two sides of the first `|`, each with what surrounds both.
fn choice(action: &str) -> Option<[String; 2]> {
    let bar = action.find('|')?;
    let depths = |text: &str| {
        let mut depth = 0;
        text.chars()
            .map(|character| {
                depth += i32::from(matches!(character, '{' | '['));
                depth -= i32::from(matches!(character, '}' | ']'));
                (character, depth)
            })
            .collect::<Vec<_>>()
    };
    // The choice ends where its surroundings do, and begins after the colon before it.
    let after = &action[bar + 1..];
    let ends = |(character, depth): &(char, i32)| *depth < 0 || *depth == 0 && *character == ',';
    let end = bar + 1 + depths(after).iter().position(ends)?;
    let before = &action[..bar];
    let seen = depths(before);
    let level = seen.last()?.1;
    let start = 1 + seen.iter().rposition(|one| *one == (':', level))?;
    let (head, tail) = (&action[..start], &action[end..]);
    let (one, other) = (&action[start..bar], &action[bar + 1..end]);
    Some([format!("{head}{one}{tail}"), format!("{head}{other}{tail}")])
}
