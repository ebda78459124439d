//! The kernel parameters that stand in for `[image]`.

use std::collections::HashMap;

use crate::finding::{Findings, Place};
use crate::owner::{NO_PROXY, Owner, Placed, Policy};

const PROXIES: [(&str, &str); 3] = [
    ("agent.https_proxy", "HTTPS_PROXY"),
    ("agent.http_proxy", "HTTP_PROXY"),
    ("agent.no_proxy", NO_PROXY),
];

const CREDENTIALS: &str = "agent.image_registry_auth";
/// How a URI of a plugin begins.
const PLUGIN: &str = "kbs+";
const POLICY_FILE: &str = "agent.image_policy_file";
const POLICY_SWITCH: &str = "agent.enable_signature_verification";

/// Reads a line of parameters, in which the last of one name counts and a quote is a letter, as the
/// hub reads it.
pub(crate) fn read(line: &str, owner: &mut Owner, findings: &mut Findings) {
    let words = line.split_ascii_whitespace();
    let parameters: HashMap<_, _> = words.filter_map(|word| word.split_once('=')).collect();
    for (name, variable) in PROXIES {
        if let Some(text) = parameters.get(name) {
            owner.proxy(variable, text, Place::parameter(name));
        }
    }
    if let Some(text) = parameters.get(CREDENTIALS) {
        owner.credentials = reference(CREDENTIALS, text, findings);
    }
    read_policy(&parameters, owner, findings);
}

/// The hub asks for the policy only where it is switched on, by this very word.
fn read_policy(parameters: &HashMap<&str, &str>, owner: &mut Owner, findings: &mut Findings) {
    let is_wanted = parameters.get(POLICY_SWITCH) == Some(&"true");
    match (parameters.get(POLICY_FILE), is_wanted) {
        (Some(text), true) => {
            owner.policy = reference(POLICY_FILE, text, findings).map(Policy::Reference);
        }
        (Some(_), false) => {
            let note = format!("has no effect, as in the hub, without {POLICY_SWITCH}=true");
            findings.note(Place::parameter(POLICY_FILE), note);
        }
        (None, true) => {
            let note = format!("has no effect, as in the hub, without {POLICY_FILE}");
            findings.note(Place::parameter(POLICY_SWITCH), note);
        }
        (None, false) => {}
    }
}

/// What a parameter refers to. The command line is not measured everywhere, and a host must not
/// choose a plugin.
fn reference(name: &str, text: &str, findings: &mut Findings) -> Option<Placed> {
    let place = Place::parameter(name);
    if text.starts_with(PLUGIN) {
        let rule = "names a plugin of the broker, which only a measured document may; write it \
            into the initdata";
        findings.problem(place, rule);
        return None;
    }
    Some((text.to_owned(), place))
}
