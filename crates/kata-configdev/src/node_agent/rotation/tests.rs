use registry_config::RegistryHost;

use super::*;
use crate::providers::{AskedPlugin, NotKept};

const FRESH: Outcome = Outcome::Fresh { kept_for: Err(NotKept::NoTime) };

/// Whether the wrapper may rely on the agent after these passes.
fn works_after(passes: &[&[(&str, Outcome)]]) -> bool {
    let mut rotation = Rotation::default();
    let mut asked = Asked::default();
    for pass in passes {
        asked.counted.clear();
        let of_plugin = |(name, outcome): &(&str, Outcome)| AskedPlugin {
            source: format!("credential provider {name}"),
            registry: RegistryHost::parse("registry.corp").unwrap().into(),
            repositories: None,
            outcome: *outcome,
        };
        let contribution =
            Contribution { asked: pass.iter().map(of_plugin).collect(), ..Contribution::default() };
        asked.note(&contribution, true, Duration::ZERO);
        // For another sandbox of the same pass.
        asked.note(&contribution, false, Duration::ZERO);
    }
    rotation.sets.insert("default".into(), asked);
    rotation.works_here("default")
}

#[test]
fn a_plugin_works_once_it_answered_until_it_failed_for_long() {
    let (answers, hangs, fails) =
        (&[("one", FRESH)][..], &[("one", Outcome::Hung)][..], &[("one", Outcome::Failed)][..]);
    let kept = &[("one", Outcome::Kept { left: LEAST })][..];
    for (passes, works) in [
        (&[][..], false),
        (&[hangs], false),
        (&[fails, kept], false),
        (&[kept], true),
        (&[answers, hangs, fails], true),
        (&[answers, hangs, fails, hangs], false),
        (&[answers, hangs, fails, answers, hangs], true),
        (&[answers, hangs, hangs, hangs, answers], true),
    ] {
        assert_eq!(works_after(passes), works, "{passes:?}");
    }
}

#[test]
fn what_one_plugin_says_is_no_answer_of_another() {
    let pass = &[("one", FRESH), ("two", Outcome::Hung)][..];
    assert!(works_after(&[pass, pass]));
    assert!(!works_after(&[pass, pass, pass]));
}
