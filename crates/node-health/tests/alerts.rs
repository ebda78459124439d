//! The chart's alerts ask for numbers that there are.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;

use node_health::Numbers;
use node_health::metrics::{ProviderNumbers, SetNumbers};

const ALERTS: &str = include_str!("../../../deploy/chart/kata-configdev/alerts.yaml");

/// Each name in the alerts, with the labels that its expression or its words use.
fn asked() -> Vec<(String, BTreeSet<String>)> {
    let alerts = ALERTS.split("\n- alert: ").skip(1);
    let of = |alert: &str| {
        let name = alert.split("kata_configdev_").nth(1).unwrap();
        let name: String =
            name.chars().take_while(|char| char.is_ascii_lowercase() || *char == '_').collect();
        let labels = alert.split("$labels.").skip(1).map(|rest| {
            let end = rest.find(|char: char| !char.is_ascii_lowercase()).unwrap();
            rest[..end].to_owned()
        });
        // The pod's name is added by whoever collects.
        let labels = labels.filter(|label| label != "pod").collect();
        (format!("kata_configdev_{name}"), labels)
    };
    alerts.map(of).collect()
}

#[test]
fn every_alert_asks_for_a_number_with_its_labels() {
    let key = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    let set = SetNumbers { document: "node-error", changed: Some(1.0), enabled: false };
    let numbers = Numbers {
        sets: [("default".into(), set)].into(),
        sandboxes: [(("default".into(), "behind"), 1)].into(),
        refused: [("a cause", 1)].into(),
        providers: [(key("default", "ecr"), ProviderNumbers::default())].into(),
        root_expiry: [(key("default", "a.corp"), 1)].into(),
        ..Numbers::default()
    };
    let text = numbers.text(false);
    let asked = asked();
    assert_eq!(asked.len(), ALERTS.matches("expr: ").count());
    for (name, labels) in asked {
        let told = text
            .lines()
            .find(|line| {
                line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} "))
            })
            .unwrap_or_else(|| panic!("{name} is not in {text}"));
        for label in labels {
            assert!(told.contains(&format!("{label}=\"")), "{label} in {told}");
        }
    }
}
