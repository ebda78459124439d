//! What a probe found, for people and for programs.

use foreign_text::shown;
use oci_image::digest::Digest;
use registry_client::Stage;
use serde_json::{Value, json};

use super::super::{EX_DATAERR, EX_UNAVAILABLE, exit_code, print};
use crate::error::chain;
use crate::pull::probe::{Asked, End, Found, Target};

/// Of all targets.
pub struct Report {
    pub rows: Vec<Row>,
    /// How many entries were too many.
    pub left_out: usize,
}

/// Of one target.
pub struct Row {
    name: String,
    verdict: Verdict,
    /// What is said beside the sources.
    text: String,
    digest: Option<Digest>,
    /// Whether no image was named, so that only `/v2/` was tried.
    is_entry: bool,
    asked: Vec<Asked>,
    code: u8,
}

/// Whether a pull would work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Works,
    Fails,
    /// It takes a guest to know.
    Unknown,
    /// There was nothing to try.
    NotTried,
}

impl Report {
    /// The highest exit code of a target; an entry that cannot be tried is no failure beside
    /// others.
    pub fn code(&self) -> u8 {
        let highest = self.rows.iter().map(|row| row.code).max().unwrap_or(0);
        let is_any_tried = self.rows.iter().any(|row| row.verdict != Verdict::NotTried);
        match highest {
            0 if self.left_out > 0 => EX_UNAVAILABLE,
            0 if !is_any_tried => EX_DATAERR,
            code => code,
        }
    }

    pub fn print(&self, is_json: bool) {
        if is_json {
            let targets: Vec<_> = self.rows.iter().map(Row::json).collect();
            let works = self.code() == 0;
            let left_out = self.left_out;
            let report = json!({ "works": works, "targets": targets, "leftOut": left_out });
            return print(&report.to_string());
        }
        self.rows.iter().for_each(|row| print(&row.line()));
        if self.left_out > 0 {
            print(&format!("{} more entries were not tried; name images of theirs", self.left_out));
        }
    }
}

impl Row {
    /// An argument that is no reference.
    pub fn unreadable(name: String, reason: String) -> Self {
        Self {
            name,
            verdict: Verdict::Fails,
            text: reason,
            digest: None,
            is_entry: false,
            asked: Vec::new(),
            code: EX_DATAERR,
        }
    }

    pub fn of(name: String, target: &Target, found: Found) -> Self {
        let mut digest = None;
        let (verdict, text, code) = match found.end {
            End::Works(seen) => {
                let text = match target {
                    Target::Entry(_) => "; only /v2/ was tried, because no image was named",
                    Target::Image(_) => "",
                };
                digest = seen;
                (Verdict::Works, text.to_owned(), 0)
            }
            End::WorksByTag(seen) => {
                let text = format!("; a guest pulls it only by its digest, which is {seen} now");
                digest = Some(seen);
                (Verdict::Works, text, 0)
            }
            End::Fails(error) => {
                let text = match target {
                    Target::Entry(_) => {
                        format!("{}; only /v2/ was to be tried", chain(&error))
                    }
                    Target::Image(_) => chain(&error),
                };
                (Verdict::Fails, text, exit_code(error.kind()))
            }
            End::NeedsGuest(error) => {
                let text = format!(
                    "not tried, a guest has to fetch what is given by reference: {}",
                    chain(&error)
                );
                (Verdict::Unknown, text, EX_UNAVAILABLE)
            }
            End::Forbidden(error) => {
                let text = format!("not tried, {}", chain(&error));
                (Verdict::NotTried, text, 0)
            }
            End::NoHost => {
                let text = "not tried, it is the name of no single host; name an image";
                (Verdict::NotTried, text.to_owned(), 0)
            }
        };
        Self {
            name,
            verdict,
            text,
            digest,
            is_entry: matches!(target, Target::Entry(_)),
            asked: found.asked,
            code,
        }
    }

    fn line(&self) -> String {
        let name = shown(&self.name);
        let text = match self.verdict {
            Verdict::Works => {
                let (last, before) = match self.asked.split_last() {
                    Some((last, before)) => (said(last), before),
                    None => (String::new(), &[][..]),
                };
                let before = before.iter().map(|asked| format!("; before it {}", said(asked)));
                let before: String = before.collect();
                format!("works: {last}{}{before}", self.text)
            }
            Verdict::Fails => format!("fails: {}", self.text),
            Verdict::Unknown | Verdict::NotTried => self.text.clone(),
        };
        format!("{name}: {}", shown(&text).up_to(MAX_LINE_BYTES))
    }

    fn json(&self) -> Value {
        let works = match self.verdict {
            Verdict::Works => Some(true),
            Verdict::Fails => Some(false),
            Verdict::Unknown | Verdict::NotTried => None,
        };
        let tried = match (self.verdict, self.is_entry) {
            (Verdict::Unknown | Verdict::NotTried, _) => None,
            (_, true) => Some("/v2/"),
            (_, false) => Some("manifest"),
        };
        let error = (self.verdict != Verdict::Works).then_some(&self.text);
        let key = if self.is_entry { "entry" } else { "image" };
        json!({
            key: self.name,
            "works": works,
            "tried": tried,
            "digest": self.digest.as_ref().map(ToString::to_string),
            "sources": self.asked.iter().map(source).collect::<Vec<_>>(),
            "error": error,
            "exitCode": self.code,
        })
    }
}

/// The longest line; each error is much shorter.
const MAX_LINE_BYTES: usize = 16 << 10;

/// A source in a line.
fn said(asked: &Asked) -> String {
    let Asked { source, via, .. } = asked;
    match &asked.refusal {
        Some(refusal) => format!("{source} failed: {}", refusal.reason),
        None => format!("{source} reached{via}, {}, {}, allowed", asked.certificate, asked.account),
    }
}

fn source(asked: &Asked) -> Value {
    let stage = asked.refusal.as_ref().map(|refusal| refusal.stage);
    // What comes after the stage at which it ended is not known.
    let passed = |this: Stage| match stage {
        None => Some(true),
        Some(stage) if stage > this => Some(true),
        Some(stage) if stage == this => Some(false),
        Some(_) => None,
    };
    json!({
        "source": asked.source,
        "scheme": asked.scheme,
        "proxy": (!asked.via.is_empty()).then(|| asked.via.trim()),
        "reached": passed(Stage::Reach),
        // Where none is checked, there is nothing to say.
        "certificate": passed(Stage::Certificate).filter(|passed| !passed || asked.is_checked),
        "certificateText": asked.certificate,
        "account": passed(Stage::Account),
        "accountText": asked.account,
        "allowed": passed(Stage::Access),
        "error": asked.refusal.as_ref().map(|refusal| &refusal.reason),
        "stage": stage.map(Stage::word),
    })
}
