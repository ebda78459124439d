//! Scripts: which requests are answered otherwise.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use serde::Deserialize;

use crate::action::{Action, End};
use crate::content::What;
use crate::login::Login;

/// What a registry does beside serving its content.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Script {
    /// Who may ask; nothing for everybody.
    pub login: Option<Login>,
    /// What happens to connections before any byte is read from them.
    pub connections: Vec<ConnectionRule>,
    /// Further texts that stand for others in headers, with their braces: `{"{other}":
    /// "https://..."}`.
    pub names: BTreeMap<String, String>,
    /// What happens to requests; of the rules that fit one the first is followed.
    pub rules: Vec<Rule>,
}

/// Some connections, and how they end at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ConnectionRule {
    /// The first connection concerned, from 1.
    #[serde(default = "one")]
    pub first: usize,
    /// The last one, or all after the first.
    #[serde(default)]
    pub last: Option<usize>,
    /// What becomes of them.
    pub how: End,
}

/// Some requests, and what is done to their answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// What is asked for.
    pub what: What,
    /// The method, or any.
    #[serde(default)]
    pub method: Option<String>,
    /// The first request concerned, from 1, counted among those that ask for this with this method.
    #[serde(default = "one")]
    pub first: usize,
    /// The last one, or all after the first.
    #[serde(default)]
    pub last: Option<usize>,
    /// Whether it concerns the challenges to those who are not logged in, instead of the answers to
    /// those who are.
    #[serde(default)]
    pub before_login: bool,
    /// What is done, in order.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

const fn one() -> usize {
    1
}

impl Rule {
    /// A rule for the requests numbered `times` (from 1) for `what`.
    pub fn new(
        what: What,
        times: impl RangeBounds<usize>,
        actions: impl IntoIterator<Item = Action>,
    ) -> Self {
        let (first, last) = numbers(&times);
        Self {
            what,
            method: None,
            first,
            last,
            before_login: false,
            actions: actions.into_iter().collect(),
        }
    }

    /// Whether the request with this number among the rule's own is concerned.
    pub(super) fn applies(&self, number: usize) -> bool {
        number >= self.first && self.last.is_none_or(|last| number <= last)
    }
}

fn numbers(times: &impl RangeBounds<usize>) -> (usize, Option<usize>) {
    let first = match times.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before + 1,
        Bound::Unbounded => 1,
    };
    let last = match times.end_bound() {
        Bound::Included(last) => Some(*last),
        Bound::Excluded(after) => Some(after - 1),
        Bound::Unbounded => None,
    };
    (first, last)
}

impl Script {
    /// A registry without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only who has these credentials is served.
    #[must_use]
    pub fn login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }

    /// `{name}` stands for `value`, such as another registry's address.
    #[must_use]
    pub fn name(mut self, name: &str, value: &str) -> Self {
        self.names.insert(format!("{{{name}}}"), value.to_owned());
        self
    }

    /// The first request for `what` is answered with these actions.
    #[must_use]
    pub fn once(self, what: What, actions: impl IntoIterator<Item = Action>) -> Self {
        self.rule(Rule::new(what, 1..=1, actions))
    }

    /// Every request for `what` is.
    #[must_use]
    pub fn always(self, what: What, actions: impl IntoIterator<Item = Action>) -> Self {
        self.rule(Rule::new(what, .., actions))
    }

    /// The requests numbered `times` for `what` are.
    #[must_use]
    pub fn times(
        self,
        what: What,
        times: impl RangeBounds<usize>,
        actions: impl IntoIterator<Item = Action>,
    ) -> Self {
        self.rule(Rule::new(what, times, actions))
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Ends the connections numbered `times` before any byte is read.
    #[must_use]
    pub fn connections(mut self, times: impl RangeBounds<usize>, how: End) -> Self {
        let (first, last) = numbers(&times);
        self.connections.push(ConnectionRule { first, last, how });
        self
    }

    /// How the connection with this number ends before it begins, if it does.
    pub(super) fn connection(&self, number: usize) -> Option<End> {
        let concerns = |rule: &&ConnectionRule| {
            number >= rule.first && rule.last.is_none_or(|last| number <= last)
        };
        self.connections.iter().find(concerns).map(|rule| rule.how)
    }
}
