//! The kernel parameters that stand in for `[image]`.

use std::collections::HashMap;

use crate::finding::{Findings, Place};
use crate::image::POLICY;
use crate::owner::{NO_PROXY, Owner};

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
        // The command line is not measured everywhere, and a host must not choose a plugin.
        if text.starts_with(PLUGIN) {
            let rule = "names a plugin of the broker, which only a measured document may; write it \
                into the initdata";
            findings.problem(Place::parameter(CREDENTIALS), rule);
        } else {
            owner.credentials = Some(((*text).to_owned(), Place::parameter(CREDENTIALS)));
        }
    }
    let is_wanted = parameters.get(POLICY_SWITCH) == Some(&"true");
    if is_wanted && parameters.contains_key(POLICY_FILE) {
        findings.problem(Place::parameter(POLICY_FILE), POLICY);
    }
}
