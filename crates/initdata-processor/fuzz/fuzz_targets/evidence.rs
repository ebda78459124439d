//! Invariant: no bytes make a report parser panic, and one that is accepted carries our label and
//! its field at the published places.
#![cfg_attr(fuzzing, no_main)]

use initdata_processor::evidence::{LABEL, host_data, mr_config_id, report_in};

fuzzing::target!(|input: &[u8]| {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    match kind {
        // What the SNP ioctl gives.
        0 => {
            let Ok(response) = bytes.try_into() else {
                return;
            };
            if let Ok(report) = report_in(response) {
                assert_eq!(bytes[..8], [0, 0, 0, 0, 0xa0, 0x04, 0, 0]);
                assert_eq!(report, &bytes[32..1216]);
                snp(report);
            }
        }
        // A report of any length.
        1 => snp(bytes),
        // What the TDX ioctl gives.
        _ => {
            let Ok(report) = bytes.try_into() else { return };
            match mr_config_id(report) {
                Ok(field) => {
                    assert_eq!(bytes[..2], [0x81, 0]);
                    assert_eq!(bytes[128..192], *LABEL);
                    assert_eq!(bytes[576..624], field);
                }
                Err(error) => short(&error),
            }
        }
    }
});

fn snp(report: &[u8]) {
    match host_data(report) {
        Ok(field) => {
            assert_eq!(report.len(), 1184);
            assert!(report[0] > 1 || report[1..4] != [0; 3]);
            assert_eq!(report[0x50..0x90], *LABEL);
            assert_eq!(report[0xc0..0xe0], field);
        }
        Err(error) => short(&error),
    }
}

/// What reaches the log and the policy is one short line.
fn short(error: &impl ToString) {
    let text = error.to_string();
    assert!(text.len() < 256 && !text.chars().any(char::is_control));
}
