//! The processor's verdict, the policy in force, and the files that it left.

use super::{Case, Said, failed, fine, shown, skipped, warning};
use crate::options::Expect;
use crate::seen::{File, INSECURE, MEASURED};
use crate::surroundings::POLICY_MARK;

const POLICY: &str = "/run/measured-cfg/policy.rego";
const DOCUMENT: &str = "/run/insecure-cfg/imagepuller.toml";
const REFUSED: &str = "/run/insecure-cfg/initdata.refused";

/// What is in the policy that the processor writes where it refuses.
const DENIES: &str = "nothing may run in this guest";

/// The first line with this word that it wrote to the kernel's log: later ones are a refresh's.
fn said(case: &Case<'_>, word: &str) -> String {
    let line = case.run.seen.log.iter().find(|line| line.contains(word));
    shown(line.map_or("", |line| line.trim_start_matches("initdata-processor: ")), 400)
}

fn file<'a>(case: &Case<'a>, path: &str) -> Option<&'a File> {
    case.run.seen.files.iter().find(|file| file.path == path)
}

pub fn verdict(case: &Case<'_>) -> Said {
    if let Some(secs) = case.run.seen.policy.as_ref().and_then(|policy| policy.late_secs) {
        return failed(
            format!("it was not done when the agent started, but {secs:.1} s later"),
            "let the agent start after it: After= and Requires=initdata.target, as in \
             kata-agent.service.d/50-configdev.conf",
        );
    }
    if file(case, MEASURED).is_none() {
        return failed(
            format!("there is no {MEASURED}: it did not run before the agent"),
            "start initdata-processor before the agent, and keep /run",
        );
    }
    let took = said(case, "finished after");
    let refused = match said(case, "refused") {
        said if said.is_empty() => "initdata refused".to_owned(),
        said => format!("initdata refused: {said}"),
    };
    match (case.options.expect, file(case, REFUSED)) {
        (Expect::Refused, Some(_)) => fine(refused),
        (Expect::Refused, None) => failed(
            "initdata that nothing verifies was accepted",
            "the image must not set configdev.allow_unverified_initdata",
        ),
        (_, Some(_)) => {
            failed(refused, "see the reason; check the document with kata-configdev inspect")
        }
        (_, None) if case.around.initdata.is_some() => {
            fine(format!("initdata accepted without evidence; {took}"))
        }
        (_, None) => fine(format!("no initdata; {took}")),
    }
}

pub fn policy(case: &Case<'_>) -> Said {
    let Some(policy) = &case.run.seen.policy else {
        return skipped();
    };
    let path = &policy.path;
    let Some(text) = &policy.text else {
        return failed(
            format!("there is none at {path} when the agent starts"),
            "the processor leaves one at every end of its: start it before the agent",
        );
    };
    if path != POLICY {
        let text = format!("the agent goes by {path}, whatever initdata says");
        let remedy = "set KATA_AGENT_POLICY_FILE=/run/measured-cfg/policy.rego for the agent, as \
                      kata-agent.service.d/60-policy.conf does";
        return match case.options.expect {
            Expect::Refused => failed(text, remedy),
            Expect::Ready | Expect::Anonymous => warning(text, remedy),
        };
    }
    let denies = text.contains(DENIES);
    let others = "let nothing but the processor write below /run/measured-cfg";
    match case.options.expect {
        Expect::Refused if denies => fine("deny-all, with the reason"),
        Expect::Refused => {
            failed("initdata was refused, and the policy does not deny everything", others)
        }
        _ if case.around.own_initdata && text.contains(POLICY_MARK) => fine("that of initdata"),
        _ if case.around.own_initdata => failed("it is not the one that initdata brings", others),
        _ if denies => {
            let reason = text.lines().find_map(|line| line.strip_prefix("reason := "));
            let reason = shown(reason.unwrap_or("it names no reason"), 400);
            failed(
                format!("deny-all: {reason}"),
                "an image whose pods may come without a policy needs \
                 /etc/kata-opa/default-policy.rego; others need --initdata with a policy",
            )
        }
        _ => {
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            fine(format!("{} at {POLICY}", shown(first, 80)))
        }
    }
}

pub fn files(case: &Case<'_>) -> Said {
    let files = &case.run.seen.files;
    let is_refused = case.options.expect == Expect::Refused;
    let error = files.iter().find(|file| file.path.ends_with("imagepuller.error"));
    match (error, case.around.document.is_some(), file(case, DOCUMENT)) {
        (Some(file), ..) if !is_refused => {
            let why = shown(file.reason.as_deref().unwrap_or_default(), 400);
            return failed(
                format!("the document was refused: {why}"),
                "see the reason; kata-configdev check says more about the document",
            );
        }
        (_, true, None) if !is_refused => {
            return failed(
                format!("there is no {DOCUMENT}"),
                "the disk came after the processor; say configdev.expect=imagepuller in --append \
                 and in kernel_params",
            );
        }
        (_, false, Some(_)) => {
            let text = format!("{DOCUMENT} is there, and no disk brought it");
            return failed(text, "take it out of the image");
        }
        _ => {}
    }
    if let Some(file) = files.iter().find(|file| file.mode != expected_mode(&file.path)) {
        let text = format!("{} has the mode {}", file.path, file.mode);
        return failed(text, "let nothing but the processor make or change it");
    }
    let told = files.iter().filter(|file| file.path != MEASURED && file.path != INSECURE);
    let told =
        told.map(|file| format!("{} {} {} {} B", file.path, file.mode, file.owner, file.bytes));
    fine(told.collect::<Vec<_>>().join(", "))
}

pub fn hidden(case: &Case<'_>) -> Said {
    let mut disks = case.run.seen.disks.iter();
    match disks.find(|disk| disk.visible && disk.magic.as_deref() == Some("initdata")) {
        None => fine("no disk that an agent could take a policy from"),
        Some(disk) => warning(
            format!("an agent with Kata's own initdata processing finds /dev/{}", disk.name),
            "right with accepted-disk = \"copy\" or \"keep\" only, and with the attestation agent",
        ),
    }
}

/// The mode that the processor gives to what stands in its two folders.
fn expected_mode(path: &str) -> &'static str {
    match path {
        INSECURE => "0700",
        MEASURED => "0755",
        path if path.starts_with(INSECURE) => "0600",
        _ => "0644",
    }
}
