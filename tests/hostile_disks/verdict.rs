//! What must hold of the results, wherever the program ran.

use std::fmt::Write as _;

use crate::hostile_disks::row::{Expected, Files, Row, SECRET, Shape};

/// What is wrong, as text.
pub type Findings = Result<(), String>;

/// Where there are more, the program looks at none.
const MAX_BLOCK_DEVICES: usize = 1024;

/// Takes the note that initdata was refused out of `insecure`: it is there then, and only then.
pub fn take_note(initdata: &Expected, insecure: &mut Files) -> Findings {
    let expected = matches!(initdata, Expected::Refused(_)).then(Vec::new);
    match insecure.remove("initdata.refused") {
        note if note == expected => Ok(()),
        note => Err(format!("initdata.refused: {note:?}")),
    }
}

/// Compares what is in a directory with what the table says.
pub fn compare(expected: &Expected, found: &Files) -> Findings {
    let (file, words) = match expected {
        Expected::Placed(files) if files == found => return Ok(()),
        Expected::Absent if found.is_empty() => return Ok(()),
        Expected::Placed(files) => return beside_no_policy(files, found),
        Expected::Absent => return beside_no_policy(&Files::new(), found),
        Expected::Refused(words) => match found.iter().next() {
            Some((name, file)) if found.len() == 1 => match name.as_str() {
                "policy.rego" => (policy_reason(file)?, words),
                "imagepuller.error" => (error_reason(file)?, words),
                _ => return Err(shown(found)),
            },
            _ => return Err(shown(found)),
        },
    };
    printable(file.as_bytes())?;
    match words.iter().find(|word| !file.contains(*word)) {
        Some(word) => Err(format!("\"{word}\" is missing in: {file}")),
        None => Ok(()),
    }
}

/// Where neither initdata nor the image has a policy, one that denies everything says so.
fn beside_no_policy(expected: &Files, found: &Files) -> Findings {
    let mut others = found.clone();
    let policy = others.remove("policy.rego").ok_or_else(|| shown(found))?;
    match policy_reason(&policy)?.contains("default policy") && others == *expected {
        true => Ok(()),
        false => Err(shown(found)),
    }
}

/// The reason in a deny-all policy; nothing else in it comes from a disk.
fn policy_reason(policy: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(policy).map_err(|error| error.to_string())?;
    let constant = |line: &str| {
        let rule = |line: &str| line.strip_suffix("Request := false").map(str::to_owned);
        line.is_empty()
            || line.starts_with("# ")
            || ["package agent_policy", "import future.keywords.if"].contains(&line)
            || line
                .strip_prefix("default ")
                .and_then(|line| line.strip_suffix(" := false"))
                .is_some_and(is_word)
            || line.strip_suffix(" := false if { print(reason) }").is_some_and(is_word)
            || rule(line).is_some_and(|name| is_word(&name))
    };
    let mut reasons = text.lines().filter(|line| !constant(line));
    let reason = reasons.next().unwrap_or_default();
    if let Some(line) = reasons.next() {
        return Err(format!("the policy holds: {line}"));
    }
    if !text.contains("default CreateContainerRequest := false\n") {
        return Err("the policy does not deny".to_owned());
    }
    let quoted = reason
        .strip_prefix("reason := \"")
        .and_then(|reason| reason.strip_suffix('"'))
        .ok_or_else(|| format!("the policy's reason is: {reason}"))?;
    // A quote that is not escaped would end the string.
    let plain = quoted.replace("\\\\", "\0").replace("\\\"", "\u{1}");
    if plain.contains(['"', '\\']) {
        return Err(format!("the policy's reason is not escaped: {quoted}"));
    }
    Ok(plain.replace('\u{1}', "\"").replace('\0', "\\"))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The one line of an error file.
fn error_reason(file: &[u8]) -> Result<String, String> {
    match std::str::from_utf8(file).map(|text| text.strip_suffix('\n')) {
        Ok(Some(line)) if line.starts_with("failed to ") => Ok(line.to_owned()),
        _ => Err(format!("the error file holds: {}", file.escape_ascii())),
    }
}

/// The log tells of every whole disk, and of the errors of those that cannot be read: so the
/// program did see them.
pub fn tells(log: &str, row: &Row) -> Findings {
    let told = log
        .lines()
        .filter(|line| line.contains(": passed over: ") || line.contains("found the magic"))
        .count();
    let listed = row.disks.iter().filter(|disk| disk.shape != Shape::Partition).count();
    if told < listed && listed <= MAX_BLOCK_DEVICES {
        return Err(format!("the log tells of {told} disks"));
    }
    let unreadable = row.disks.iter().filter(|disk| disk.shape == Shape::UnreadableFrom(0)).count();
    if log.matches("os error 5)").count() < unreadable {
        return Err("the log tells of no error".to_owned());
    }
    Ok(())
}

/// Every line is a printable one of this program, and none quotes a disk.
pub fn check_log(log: &[u8]) -> Findings {
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").ok_or("the log ends in a line")?;
        printable(line)?;
        if !line.starts_with(b"initdata-processor: ") {
            return Err(format!("in the log: {}", line.escape_ascii()));
        }
    }
    Ok(())
}

fn printable(line: &[u8]) -> Findings {
    let shown = line.escape_ascii();
    if !line.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(format!("not printable: {shown}"));
    }
    if line.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
        return Err(format!("quotes a disk: {shown}"));
    }
    Ok(())
}

/// Enough of `files` for a failure's message.
fn shown(files: &Files) -> String {
    let mut text = "found other files:".to_owned();
    for (name, content) in files.iter().take(4) {
        let start = &content[..content.len().min(200)];
        let _ = write!(text, " {name} ({} bytes) \"{}\"", content.len(), start.escape_ascii());
    }
    text
}
