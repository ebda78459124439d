//! `dangerousToNamespacesSelector`: conditions on a namespace object.

use crate::secret_manifest::{Metadata, Selector};

/// Whether all conditions hold. Of a namespace only names, labels and annotations are known.
pub(super) fn all_hold(selectors: &[Selector], namespace: &Metadata) -> Result<bool, &'static str> {
    for selector in selectors {
        let value = value(&selector.key, namespace)?;
        let is_listed = selector.values.iter().any(|listed| listed == value);
        let holds = match selector.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => !value.is_empty(),
            "DoesNotExist" => value.is_empty(),
            _ => return Err("its operator is not known"),
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a path leads to; an absent field is empty.
fn value<'n>(path: &str, namespace: &'n Metadata) -> Result<&'n str, &'static str> {
    const UNKNOWN: &str =
        "only metadata.name and single labels and annotations are understood as its key";
    let steps = steps(path).ok_or(UNKNOWN)?;
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    match steps[..] {
        ["metadata", "name"] => Ok(&namespace.name),
        ["metadata", "labels", key] => Ok(namespace.labels.get(key).map_or("", String::as_str)),
        ["metadata", "annotations", key] => {
            Ok(namespace.annotations.get(key).map_or("", String::as_str))
        }
        _ => Err(UNKNOWN),
    }
}

/// The steps of a JSON path of fields: `a.b`, `a.b\.c`, `a['b.c']`.
fn steps(path: &str) -> Option<Vec<String>> {
    let mut steps = vec![String::new()];
    let mut rest = path;
    loop {
        let mut letters = rest.chars();
        let Some(letter) = letters.next() else {
            break;
        };
        rest = letters.as_str();
        match letter {
            '\\' => {
                steps.last_mut()?.push(letters.next()?);
                rest = letters.as_str();
            }
            '.' => steps.push(String::new()),
            '[' => {
                let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
                let (key, after) = rest.get(1..)?.split_once(quote)?;
                steps.push(key.to_owned());
                rest = after.strip_prefix(']')?;
                // The dot behind the bracket begins no empty step.
                if !rest.is_empty() && !rest.starts_with(['.', '[']) {
                    return None;
                }
            }
            '*' | ']' | '{' | '}' | '$' | '@' | '?' | '(' | '\'' | '"' => return None,
            other => steps.last_mut()?.push(other),
        }
    }
    steps.iter().all(|step| !step.is_empty()).then_some(steps)
}
