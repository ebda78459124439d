//! The answers to questions: those that are kept, else of the plugins themselves.

use std::time::Instant;

use credential_sources::kubelet::answer::source;
use credential_sources::kubelet::run::{Question, ask, ask_by};

use super::answers::{Answers, kept_for};
use super::questions::Inquiry;
use super::{Contribution, Kept, NotKept, Outcome, about, child};
use crate::settings::{Settings, Sources};

/// What is told where the agent is left to ask.
const LEFT: &str = "the node agent asks it, and puts what it answers onto the sandbox's disk; \
    until then the sandbox has nothing of it";

/// Answers the open questions by what is kept, else by the plugins, all at once.
pub(super) fn answer(
    questions: &mut [Inquiry<'_>],
    (settings, sources): (&Settings, &Sources),
    deadline: Instant,
    kept: Kept,
    contribution: &mut Contribution,
) {
    let answers = Answers::open(&settings.run_root, true);
    let mut tell = |one: &Inquiry<'_>, text: &str| {
        let finding = about(&source(&one.plugin.provider.name), one.registry, text);
        contribution.findings.push(finding);
    };
    let mut open = Vec::new();
    for one in questions.iter_mut().filter(|one| one.outcome != Outcome::Unneeded) {
        let answers = answers.as_ref().filter(|_| kept != Kept::Ignored);
        let host = &one.registry.host;
        let answer = answers.and_then(|answers| answers.answer(&one.fingerprint, host));
        let failure = answers.and_then(|answers| answers.failure(&one.fingerprint, host));
        match (answer, failure) {
            (Some((response, left)), _) => {
                one.outcome = Outcome::Kept { left };
                one.response = Some(response);
            }
            (None, Some((why, left))) => {
                one.outcome = Outcome::FailedBefore { left };
                tell(one, &format!("not asked again so soon after it failed: {why}"));
            }
            (None, None) if kept == Kept::Only => {
                one.outcome = Outcome::LeftToAgent;
                tell(one, LEFT);
            }
            (None, None) => open.push(one),
        }
    }
    if open.is_empty() {
        return;
    }
    let asked =
        open.iter().map(|one| Question::new(&sources.bin_dir, one.plugin.provider, one.image()));
    let asked: Vec<_> = asked.collect();
    let results = match settings.credential_providers.by_child {
        true => ask_by(child::command(), &asked, deadline),
        false => ask(&asked, deadline),
    };
    let mut answers = answers.and_then(Answers::locked);
    for (one, result) in open.iter_mut().zip(results) {
        let host = &one.registry.host;
        match result {
            Ok(response) => {
                let kept_for = kept_for(&response, one.plugin.provider.default_cache);
                if let Some(answers) = &mut answers {
                    answers.keep(&one.fingerprint, host, &response, kept_for.ok());
                }
                one.outcome = Outcome::Fresh { kept_for };
                one.response = Some(response);
            }
            Err(failure) => {
                if let Some(answers) = &mut answers {
                    answers.fail(&one.fingerprint, host, &failure);
                }
                if failure.hung {
                    one.outcome = Outcome::Hung;
                }
                tell(one, &failure.why);
            }
        }
    }
    if !answers.is_some_and(|answers| answers.write()) {
        for one in open {
            if let Outcome::Fresh { kept_for: kept_for @ Ok(_) } = &mut one.outcome {
                *kept_for = Err(NotKept::NoPlace);
            }
        }
    }
}
