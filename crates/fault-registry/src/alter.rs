//! Doing to an answer what a rule says.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::{Action, Bytes, Length};
use crate::answer::{Answer, Framing};
use crate::range;
use crate::request::Request;

/// The media type of Docker's first schema, signed.
const SCHEMA_1: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";

/// What an answer is altered with, beside the action.
pub(super) struct Situation<'a> {
    pub(super) request: &'a Request,
    /// This registry's own address, `scheme://host:port`.
    pub(super) base: &'a str,
    /// Further texts that stand for others.
    pub(super) names: &'a BTreeMap<String, String>,
    /// The answer as if no range had been asked for.
    pub(super) whole: &'a Answer,
}

impl Situation<'_> {
    /// Does one action to an answer.
    pub(super) fn alter(&self, answer: &mut Answer, action: &Action) {
        match action {
            Action::Status { code, headers, body } => {
                let kept = answer.clone();
                *answer = Answer::new(*code, body.clone().into_bytes());
                answer.headers.clone_from(headers);
                answer.body.is_withheld = kept.body.is_withheld;
            }
            Action::Code(code) => answer.status = *code,
            Action::Header { name, value } => answer.set_header(name, value.clone()),
            Action::AddHeader { name, value } => {
                answer.headers.push((name.clone(), value.clone()));
            }
            Action::Redirect(to) => {
                *answer = Answer::new(307, Vec::new());
                answer.headers.push(("Location".to_owned(), to.clone()));
            }
            Action::Body(bytes) => change_bytes(answer, bytes),
            Action::Length(length) => answer.framing = declared(answer, length),
            Action::Chunked(chunked) => answer.framing = Framing::Chunked(*chunked),
            Action::Range(lie) => *answer = range::lie(*lie, self.whole.clone(), self.request),
            Action::Cut { at, how } => answer.cut = Some((*at, *how)),
            Action::Drip { bytes, pause_ms } => answer.drip = Some((*bytes, *pause_ms)),
            Action::Wait(milliseconds) => answer.wait_ms = *milliseconds,
            // The server does it.
            Action::Together(_) => {}
            Action::ManyHeaders(count) => {
                let many = (0..*count).map(|number| (format!("X-Flood-{number}"), "x".to_owned()));
                answer.headers.extend(many);
            }
            Action::LongHeader(bytes) => {
                answer.headers.push(("X-Long".to_owned(), "x".repeat(*bytes)));
            }
            Action::Interim(count) => answer.interim = Some(*count),
            Action::Raw(text) => answer.raw = Some(text.clone()),
            Action::Schema1 => {
                *answer = Answer::new(200, schema_1().into_bytes());
                answer.set_header("Content-Type", Some(SCHEMA_1.to_owned()));
            }
            Action::Http2(fault) => answer.http2 = Some(*fault),
        }
        self.fill_in(answer);
    }

    /// Puts addresses in place of `{base}` and `{path}`.
    pub(super) fn fill_in(&self, answer: &mut Answer) {
        let target = self.request.target();
        for (_, value) in &mut answer.headers {
            if value.contains('{') {
                *value = value.replace("{base}", self.base).replace("{path}", &target);
                for (name, meaning) in self.names {
                    *value = value.replace(name, meaning);
                }
            }
        }
    }
}

fn change_bytes(answer: &mut Answer, bytes: &Bytes) {
    let mut changed = answer.body.bytes.to_vec();
    match bytes {
        Bytes::Flipped => {
            let middle = changed.len() / 2;
            if let Some(byte) = changed.get_mut(middle) {
                *byte ^= 1;
            }
        }
        Bytes::Truncated(length) => changed.truncate(*length),
        Bytes::Longer(more) => changed.resize(changed.len() + more, b' '),
        Bytes::Endless => {
            answer.body.is_endless = true;
            answer.framing = Framing::Declared(Vec::new());
        }
        Bytes::Text(text) => changed = text.clone().into_bytes(),
    }
    answer.body.bytes = Arc::new(changed);
}

fn declared(answer: &Answer, length: &Length) -> Framing {
    let right = i64::try_from(answer.body.bytes.len()).unwrap_or(i64::MAX);
    Framing::Declared(match length {
        Length::Off(more) => vec![right.saturating_add(*more).to_string()],
        Length::Text(text) => vec![text.clone()],
        Length::Twice => vec![right.to_string(), right.saturating_add(1).to_string()],
        Length::Missing => Vec::new(),
    })
}

fn schema_1() -> String {
    let manifest = serde_json::json!({
        "schemaVersion": 1,
        "name": "team/app",
        "tag": "latest",
        "architecture": "amd64",
        "fsLayers": [],
        "history": [],
        "signatures": [],
    });
    manifest.to_string()
}
