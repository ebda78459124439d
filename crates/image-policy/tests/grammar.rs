//! What a policy may say, and how its mistakes are told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use image_policy::{InvalidPolicy, Policy};
use test_command::{hold_cases, side_by_side};

/// Accepted with so many scopes and these remarks, or what is wrong.
fn answer(policy: Result<Policy, InvalidPolicy>) -> String {
    match policy {
        Ok(policy) => {
            let remarks = policy.remarks().iter().map(|remark| format!("\nremark: {remark}"));
            format!("valid, scopes: {}{}", policy.scope_count(), remarks.collect::<String>())
        }
        Err(error) => {
            let error = error.to_string().replace("; and ", ";\n  and ");
            assert!(!error.contains("hunter2"), "{error}");
            error
        }
    }
}

#[test]
fn policies_are_valid_remarked_or_refused() {
    hold_cases(".", |text| {
        let text = text.as_bytes();
        let [plain, of_cdh] = [Policy::parse(text), Policy::parse_of_cdh(text)].map(answer);
        side_by_side(("plain", &plain), ("of cdh.toml", &of_cdh))
    });
}

#[test]
fn the_examples_of_the_page_are_policies_without_remarks() {
    let page = include_str!("../../../docs/image-policy.md");
    let examples = page.split("```json\n").skip(1);
    let examples: Vec<_> = examples.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let policy = Policy::parse(example.as_bytes()).unwrap();
        assert_eq!(policy.remarks(), [], "{example}");
    }
}
