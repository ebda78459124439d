//! Roots of a document that verify nobody, or will not for long.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use registry_config::{Document, RootOutsideDates, Roots};

use super::finding::Finding;

/// How long before its end a root is told of: the time that a new one needs to come to all nodes.
const AHEAD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What the guest will make of the roots of all entries, now and a while later.
pub fn warnings(document: &Document, now: SystemTime) -> Vec<Finding> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut findings = Vec::new();
    let registries = document.registries.iter().filter_map(|(name, entry)| {
        let roots = entry.ca_certs.as_ref()?;
        Some((format!("registries.\"{name}\".ca-certs"), roots))
    });
    for (key, roots) in registries {
        let messages = messages(roots, now).into_iter();
        findings.extend(messages.map(|message| Finding { line: None, key: key.clone(), message }));
    }
    findings
}

fn messages(roots: &Roots, now: Duration) -> Vec<String> {
    let outside = roots.at(now.as_secs()).others;
    let later = roots.at((now + AHEAD).as_secs()).others;
    let verifies_nobody =
        |root: &RootOutsideDates| format!("{root}, verifies nobody now; replace it");
    let soon = later
        .iter()
        .filter(|root| !outside.iter().any(|now| now.number == root.number))
        .map(|root| {
            let root = root.to_string().replace("which ended on", "which ends on");
            format!("{root}, will verify nobody within 30 days; replace it")
        });
    outside.iter().map(verifies_nobody).chain(soon).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = include_str!("../../../registry-config/tests/data/root.pem");

    /// 2126-10-27 21:29:56 UTC, when it ends.
    const END: u64 = 4948810196;

    #[test]
    fn a_root_is_told_of_thirty_days_ahead() {
        let day = 24 * 60 * 60;
        for (before_end, expected) in [
            (31 * day, None),
            (29 * day, Some("which ends on 2126-10-27, will verify nobody within 30 days")),
            (0, Some("will verify nobody within 30 days")),
        ] {
            let text = format!("[registries.r]\nca-certs = '''\n{ROOT}'''\n");
            let document = Document::parse(text.as_bytes()).unwrap().document;
            let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
            let found = warnings(&document, at(END - before_end));
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(words) => {
                    assert_eq!(found[0].key, "registries.\"r.\".ca-certs");
                    assert!(found[0].message.contains(words), "{found:?}");
                    let name = "\"CN=test root of puller-config\", ";
                    assert!(found[0].message.starts_with(name), "{found:?}");
                }
            }
            let late = warnings(&document, at(END + 1));
            let words = "which ended on 2126-10-27, verifies nobody now";
            assert!(late.iter().any(|finding| finding.message.contains(words)), "{late:?}");
        }
    }
}
