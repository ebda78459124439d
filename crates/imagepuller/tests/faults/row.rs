//! A row of the table: what goes wrong, and what must come of it.

use std::ops::RangeInclusive;
use std::time::Duration;

use fault_registry::{Action, Http, Image, Login, Script, What};
use imagepuller::error::Kind;
use registry_client::patience::Patience;

use crate::support::{PASSWORD, USER};

/// How tokens begin; no log or error may hold it.
pub const TOKEN: &str = "very-secret-token";

/// How long a transfer stands still before it is given up, where a row is about that. What comes at
/// all comes sooner on a busy machine, too, or the requests could not be counted.
pub const SHORT: Duration = Duration::from_millis(1200);

/// One fault.
pub struct Row {
    pub name: &'static str,
    pub script: Script,
    /// A second registry with the same content, which the first names as `{other}`.
    pub other: Option<Other>,
    /// The image, where it is not the usual one.
    pub image: Option<Image>,
    pub patience: Patience,
    pub http: Http,
    pub outcome: Outcome,
    /// How often each is asked for by who is logged in.
    pub asks: Vec<(What, RangeInclusive<usize>)>,
    /// From which byte the first layer is asked for, each time.
    pub ranges: Option<Vec<usize>>,
}

/// The second registry.
pub struct Other {
    pub script: Script,
    pub is_plain: bool,
    /// Whether the first one is the mirror of the second, instead of both being independent.
    pub is_mirrored: bool,
    /// How often it is asked for anything.
    pub asks: RangeInclusive<usize>,
}

/// What a pull must come to.
pub enum Outcome {
    Pulled,
    Refused {
        kind: Kind,
        words: Vec<&'static str>,
    },
    /// Either, as long as what is pulled is right and everything is bounded.
    Harmless,
}

/// A registry that wants to be logged in with a token, and does otherwise as the rules say.
pub fn script() -> Script {
    Script::new().login(Login::bearer(USER, PASSWORD, TOKEN))
}

/// A row that ends with the image.
pub fn pulled(name: &'static str, script: Script) -> Row {
    Row::new(name, script, Outcome::Pulled)
}

/// A row that ends with an error of this kind and with these words.
pub fn refused(name: &'static str, script: Script, kind: Kind, words: &[&'static str]) -> Row {
    let words = words.to_vec();
    Row::new(name, script, Outcome::Refused { kind, words })
}

/// A row that may end both ways.
pub fn harmless(name: &'static str, script: Script) -> Row {
    Row::new(name, script, Outcome::Harmless)
}

/// A row that ends with the image, although one answer for this is faulty: it is asked for twice.
pub fn again(name: &'static str, what: What, faults: impl Into<Faults>) -> Row {
    pulled(name, script().once(what.clone(), faults.into().0)).asks(what, 2)
}

/// A row that ends with the image, although every answer for this is odd: it is asked for once.
pub fn taken(name: &'static str, what: What, faults: impl Into<Faults>) -> Row {
    pulled(name, script().always(what.clone(), faults.into().0)).asks(what, 1)
}

/// A row in which every answer for this is faulty, which ends with an error.
pub fn fails(
    name: &'static str,
    what: What,
    faults: impl Into<Faults>,
    kind: Kind,
    words: &[&'static str],
) -> Row {
    refused(name, script().always(what, faults.into().0), kind, words)
}

/// The same; and this is asked for once, because asking again does not help.
pub fn ends(
    name: &'static str,
    what: What,
    faults: impl Into<Faults>,
    kind: Kind,
    words: &[&'static str],
) -> Row {
    fails(name, what.clone(), faults, kind, words).asks(what, 1)
}

/// What is wrong with an answer: something, several things, or only its status.
pub struct Faults(Vec<Action>);

impl From<Action> for Faults {
    fn from(action: Action) -> Self {
        Self(vec![action])
    }
}

impl<const N: usize> From<[Action; N]> for Faults {
    fn from(actions: [Action; N]) -> Self {
        Self(actions.into())
    }
}

impl From<u16> for Faults {
    fn from(status: u16) -> Self {
        Action::status(status).into()
    }
}

impl Row {
    fn new(name: &'static str, script: Script, outcome: Outcome) -> Self {
        Self {
            name,
            script,
            other: None,
            image: None,
            patience: calm(),
            http: Http::One,
            outcome,
            asks: Vec::new(),
            ranges: None,
        }
    }

    /// So many requests for this.
    pub fn asks(self, what: What, count: usize) -> Self {
        self.asks_about(what, count..=count)
    }

    /// About so many requests for this.
    pub fn asks_about(mut self, what: What, count: RangeInclusive<usize>) -> Self {
        self.asks.push((what, count));
        self
    }

    /// The first layer is asked for from these bytes on, one after another; 0 is a request without
    /// a range.
    pub fn ranges(mut self, starts: &[usize]) -> Self {
        self.ranges = Some(starts.to_vec());
        self
    }

    /// Standing still is noticed soon.
    pub fn hasty(mut self) -> Self {
        self.patience.connect = SHORT;
        self.patience.silence = SHORT;
        self.patience.stall = SHORT;
        self
    }

    /// Waits are as this says.
    pub fn patience(mut self, change: impl FnOnce(&mut Patience)) -> Self {
        change(&mut self.patience);
        self
    }

    /// Another image.
    pub fn image(mut self, image: Image) -> Self {
        self.image = Some(image);
        self
    }

    /// Another version of HTTP.
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Another registry beside the first, with TLS, which is asked so often.
    pub fn other(mut self, script: Script, asks: RangeInclusive<usize>) -> Self {
        self.other = Some(Other { script, is_plain: false, is_mirrored: false, asks });
        self
    }

    /// The other registry speaks no TLS.
    pub fn plain(mut self) -> Self {
        self.other.as_mut().unwrap().is_plain = true;
        self
    }

    /// The first registry is the mirror of the other one.
    pub fn mirrored(mut self) -> Self {
        self.other.as_mut().unwrap().is_mirrored = true;
        self
    }
}

/// Retries come soon, and a slow machine is not taken for a registry that stands still.
fn calm() -> Patience {
    Patience {
        attempts: Some(3),
        first_delay: Duration::from_millis(10),
        largest_delay: Duration::from_millis(20),
        connect: Duration::from_secs(20),
        silence: Duration::from_secs(20),
        stall: Duration::from_secs(20),
        budget: Duration::from_secs(60),
        budget_before_fallback: Duration::from_secs(60),
        ..Patience::default()
    }
}
