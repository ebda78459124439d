//! Invariant: any bytes, and any parameters in their last line, become a valid measured document or
//! problems on lines that exist, in plain text.
#![cfg_attr(fuzzing, no_main)]

use registry_config::Document;

fuzzing::target!(|bytes: &[u8]| {
    let last = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let parameters = String::from_utf8_lossy(last);
    for cdh in [Some(bytes), None] {
        let findings = match cdh_config::read(cdh, &parameters) {
            Ok(meaning) => {
                let text = meaning.document.to_toml().expect("not too long");
                let checked = Document::parse_measured(text.as_bytes());
                let shown = checked.expect("a document").document.redacted();
                assert_eq!(shown, meaning.document.redacted());
                meaning.notes
            }
            Err(problems) => {
                assert!(!problems.is_empty());
                problems
            }
        };
        let lines = bytes.split(|byte| *byte == b'\n').count();
        assert!(findings.len() <= cdh_config::MAX_FINDINGS);
        for finding in findings {
            assert!(finding.place.line <= lines);
            assert!(!finding.to_string().contains(char::is_control), "{finding}");
        }
    }
});
