//! What a policy may say, and how its mistakes are told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use image_policy::{Dialect, Policy};
use oci_image::named::NamedReference;
use test_command::{hold_cases, side_by_side};

/// Accepted with so many scopes and these remarks, or what is wrong.
fn answer(text: &str, dialect: Dialect) -> String {
    match Policy::parse(text.as_bytes(), dialect) {
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
        let [containers, coco] = [Dialect::Containers, Dialect::Coco].map(|it| answer(text, it));
        side_by_side(("containers", &containers), ("coco", &coco))
    });
}

/// image-rs has a scope for each tag with its digest; here a digest has one, and both must hold.
#[test]
fn two_tags_of_one_digest_are_one_scope_of_coco() {
    let digest = format!("@sha256:{}", "0".repeat(64));
    let text = format!(
        r#"{{"default":[{{"type":"insecureAcceptAnything"}}],"transports":{{"docker":{{
            "r.test/a:1{digest}":[{{"type":"insecureAcceptAnything"}}],
            "r.test/a:2{digest}":[{{"type":"reject"}}]}}}}}}"#
    );
    let policy = Policy::parse(text.as_bytes(), Dialect::Coco).unwrap();
    let name = NamedReference::parse(&format!("r.test/a:1{digest}")).unwrap();
    let ruling = policy.ruling(&name);
    let [clause] = ruling.clauses() else {
        panic!("{:?}", ruling.clauses());
    };
    assert_eq!(clause.requirements().len(), 2);
}

#[test]
fn the_examples_of_the_page_are_policies_without_remarks() {
    let page = include_str!("../../../docs/image-policy.md");
    let examples = page.split("```json\n").skip(1);
    let examples: Vec<_> = examples.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let policy = Policy::parse(example.as_bytes(), Dialect::Containers).unwrap();
        assert_eq!(policy.remarks(), [], "{example}");
    }
}
