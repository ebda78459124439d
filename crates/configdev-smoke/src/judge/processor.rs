//! The processor's verdict, the policy in force, and the files that it left.

use super::{Row, View};
use crate::exit::Kind;
use crate::options::Expect;
use crate::seen::Seen;
use crate::surroundings::POLICY_MARK;

const MEASURED: &str = "/run/measured-cfg";
const POLICY: &str = "/run/measured-cfg/policy.rego";
const INSECURE: &str = "/run/insecure-cfg";
const DOCUMENT: &str = "/run/insecure-cfg/imagepuller.toml";
const REFUSED: &str = "/run/insecure-cfg/initdata.refused";

/// What is in the policy that the processor writes where it refuses.
const DENIES: &str = "nothing may run in this guest";

/// A file that was seen.
struct File<'a> {
    path: &'a str,
    mode: &'a str,
    owner: &'a str,
    bytes: u64,
    reason: Option<&'a str>,
}

impl View<'_> {
    pub(super) fn processor(&self) -> Vec<Row> {
        vec![self.verdict(), self.policy(), self.files(), self.hidden()]
    }

    fn files_seen(&self) -> Vec<File<'_>> {
        let files = self.seen().filter_map(|seen| match seen {
            Seen::File { path, mode, owner, bytes, reason } => {
                Some(File { path, mode, owner, bytes: *bytes, reason: reason.as_deref() })
            }
            _ => None,
        });
        files.collect()
    }

    /// The first line with this word that it wrote to the kernel's log: what comes later is a
    /// refresh's.
    fn said(&self, word: &str) -> String {
        let lines = self.find(|seen| match seen {
            Seen::Processor { lines } => Some(lines.clone()),
            _ => None,
        });
        let lines = lines.unwrap_or_default();
        let line = lines.iter().find(|line| line.contains(word));
        let line = line.map_or("", |line| line.trim_start_matches("initdata-processor: "));
        foreign_text::one_line(line).up_to(400).to_string()
    }

    fn verdict(&self) -> Row {
        let row = Row::new("processor", Kind::Processor);
        let files = self.files_seen();
        let is_there = |path| files.iter().any(|file| file.path == path);
        let took = self.said("finished after");
        let late = self.find(|seen| match seen {
            Seen::Policy { late_secs, .. } => *late_secs,
            _ => None,
        });
        if let Some(secs) = late {
            return row.failed(
                format!("it was not done when the agent started, but {secs:.1} s later"),
                "let the agent start after it: After= and Requires=initdata.target, as in \
                 kata-agent.service.d/50-configdev.conf",
            );
        }
        if !is_there(MEASURED) {
            return row.failed(
                format!("there is no {MEASURED}: it did not run before the agent"),
                "start initdata-processor before the agent, and keep /run",
            );
        }
        let refused = is_there(REFUSED);
        let because = match self.said("refused") {
            said if said.is_empty() => String::new(),
            said => format!(": {said}"),
        };
        match (self.case.expect, refused) {
            (Expect::Refused, true) => row.fine(format!("initdata refused{because}")),
            (Expect::Refused, false) => row.failed(
                "initdata that nothing verifies was accepted",
                "the image must not set configdev.allow_unverified_initdata",
            ),
            (_, true) => row.failed(
                format!("initdata refused{because}"),
                "see the reason; check the document with kata-configdev inspect",
            ),
            (_, false) if self.case.has_initdata => {
                row.fine(format!("initdata accepted without evidence; {took}"))
            }
            (_, false) => row.fine(format!("no initdata; {took}")),
        }
    }

    fn policy(&self) -> Row {
        let row = Row::new("policy", Kind::Processor);
        let policy = self.find(|seen| match seen {
            Seen::Policy { path, text, .. } => Some((path.clone(), text.clone())),
            _ => None,
        });
        let Some((path, text)) = policy else {
            return row.skipped("the agent did not get so far");
        };
        let Some(text) = text else {
            return row.failed(
                format!("there is none at {path} when the agent starts"),
                "the processor leaves one at every end of its: start it before the agent",
            );
        };
        if path != POLICY {
            let text = format!("the agent goes by {path}, whatever initdata says");
            let remedy = "set KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego for the agent, \
                          as kata-agent.service.d/60-policy.conf does";
            return match self.case.expect {
                Expect::Refused => row.failed(text, remedy),
                _ => row.warning(text, remedy),
            };
        }
        let denies = text.contains(DENIES);
        match self.case.expect {
            Expect::Refused if denies => row.fine("deny-all, with the reason"),
            Expect::Refused => row.failed(
                "initdata was refused, and the policy does not deny everything",
                "let nothing but the processor write below /run/measured-cfg",
            ),
            _ if self.case.own_initdata && text.contains(POLICY_MARK) => {
                row.fine("that of initdata")
            }
            _ if self.case.own_initdata => row.failed(
                "it is not the one that initdata brings",
                "let nothing but the processor write below /run/measured-cfg",
            ),
            _ if denies => row.failed(
                format!("deny-all: {}", reason(&text)),
                "an image whose pods may come without a policy needs \
                 /etc/kata-opa/default-policy.rego; others need --initdata with a policy",
            ),
            _ => row.fine(format!("{} at {POLICY}", first_line(&text))),
        }
    }

    fn files(&self) -> Row {
        let row = Row::new("files", Kind::Processor);
        let files = self.files_seen();
        let find = |path| files.iter().find(|file| file.path == path);
        let reason = files.iter().find(|file| file.path.ends_with("imagepuller.error"));
        if self.case.expect != Expect::Refused
            && let Some(file) = reason
        {
            let why = foreign_text::one_line(file.reason.unwrap_or_default()).up_to(400);
            return row.failed(
                format!("the document was refused: {why}"),
                "see the reason; kata-configdev check says more about the document",
            );
        }
        let document = find(DOCUMENT);
        match (self.case.has_document, document) {
            (true, None) if self.case.expect != Expect::Refused => {
                return row.failed(
                    format!("there is no {DOCUMENT}"),
                    "the disk came after the processor; say configdev.expect=imagepuller in \
                     --append and in kernel_params",
                );
            }
            (false, Some(_)) => {
                return row.failed(
                    format!("{DOCUMENT} is there, and no disk brought it"),
                    "take it out of the image",
                );
            }
            _ => {}
        }
        let wrong = files.iter().find(|file| file.mode != expected_mode(file));
        if let Some(file) = wrong {
            let text = format!("{} has the mode {}", file.path, file.mode);
            return row.failed(text, "let nothing but the processor make or change it");
        }
        let told = files.iter().filter(|file| file.path != MEASURED && file.path != INSECURE);
        let told: Vec<_> = told
            .map(|file| format!("{} {} {} {} B", file.path, file.mode, file.owner, file.bytes))
            .collect();
        row.fine(told.join(", "))
    }

    fn hidden(&self) -> Row {
        let row = Row::new("initdata-disk", Kind::Processor);
        let visible = self.find(|seen| match seen {
            Seen::Disk { name, magic, visible: true, .. } => {
                (magic.as_deref() == Some("initdata")).then(|| name.clone())
            }
            _ => None,
        });
        match visible {
            None => row.fine("no disk that an agent could take a policy from"),
            Some(name) => row.warning(
                format!("an agent with Kata's own initdata processing finds /dev/{name}"),
                "right with accepted-disk = \"copy\" or \"keep\" only, and with the attestation \
                 agent",
            ),
        }
    }
}

/// The mode that the processor gives to what stands in its two folders.
fn expected_mode(file: &File<'_>) -> &'static str {
    match file.path {
        INSECURE => "0700",
        MEASURED => "0755",
        path if path.starts_with(INSECURE) => "0600",
        _ => "0644",
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    foreign_text::one_line(line.unwrap_or_default()).up_to(80).to_string()
}

/// The line of the deny-all policy that says why.
fn reason(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("reason := "));
    foreign_text::one_line(line.unwrap_or("it names no reason")).up_to(400).to_string()
}
