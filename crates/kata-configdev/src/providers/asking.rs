//! The answers to questions: those that are kept, else of the plugins themselves.

use std::time::Instant;

use credential_sources::kubelet::answer::source;
use credential_sources::kubelet::run::{Question, RunError, ask};

use super::cache::{Cache, keep};
use super::questions::Inquiry;
use super::{Kept, Outcome, Provided, about};
use crate::settings::Sources;

/// What is told where the agent is left to ask.
const LEFT: &str = "the node agent asks it, and puts what it answers onto the sandbox's disk; \
    until then the sandbox has nothing of it";

/// Answers the open questions from the cache, else by the plugins, all at once.
pub(super) fn answer(
    questions: &mut [Inquiry<'_>],
    sources: &Sources,
    deadline: Instant,
    (mut cache, kept): (Option<Cache>, Kept),
    provided: &mut Provided,
) {
    let needed = |one: &&mut Inquiry<'_>| one.outcome != Outcome::Unneeded;
    for one in questions.iter_mut().filter(needed) {
        if let Some(cache) = cache.as_ref().filter(|_| kept != Kept::Ignored) {
            from_cache(one, cache, provided);
        }
    }
    let open =
        questions.iter_mut().filter(|one| one.response.is_none() && one.outcome == Outcome::Failed);
    let mut open: Vec<_> = open.collect();
    if kept == Kept::Only {
        for one in open {
            one.outcome = Outcome::LeftToAgent;
            let finding = about(&source(&one.plugin.provider.name), one.host, LEFT);
            provided.findings.push(finding);
        }
        return;
    }
    let asked: Vec<_> = open
        .iter()
        .map(|one| Question { provider: one.plugin.provider, image: one.image() })
        .collect();
    let results = ask(&sources.bin_dir, &asked, deadline);
    for (one, result) in open.iter_mut().zip(results) {
        let provider = one.plugin.provider;
        match result {
            Ok(answer) => {
                // Whether or not the answer may be kept.
                if let Some(cache) = &cache {
                    cache.forget_failure(&one.fingerprint, one.host);
                }
                let cache = cache.as_mut();
                let default = provider.default_cache;
                let kept_for = keep(cache, &one.fingerprint, one.host, &answer, default);
                one.outcome = Outcome::Fresh { kept_for };
                one.response = Some(answer.response);
            }
            Err(error) => {
                let why = error.to_string();
                let hung = matches!(error, RunError::TimedOut);
                if hung {
                    one.outcome = Outcome::Hung;
                }
                if let Some(cache) = &mut cache {
                    cache.remember_failure(&one.fingerprint, one.host, &why, hung);
                }
                let finding = about(&source(&provider.name), one.host, &why);
                provided.findings.push(finding);
            }
        }
    }
}

/// What an earlier sandbox got of the plugin: an answer, or none.
fn from_cache(one: &mut Inquiry<'_>, cache: &Cache, provided: &mut Provided) {
    let provider = one.plugin.provider;
    if let Some(found) = cache.find(&one.fingerprint, one.host, provider.version) {
        one.outcome = Outcome::Kept { left: found.left };
        one.response = Some(found.response);
    } else if let Some(failure) = cache.failure(&one.fingerprint, one.host) {
        one.outcome = Outcome::FailedBefore { left: failure.left };
        let text = format!("not asked again so soon after it failed: {}", failure.why);
        let finding = about(&source(&provider.name), one.host, &text);
        provided.findings.push(finding);
    }
}
