//! The change, and the wait for what it does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Error;
use crate::api::Object;
use crate::daemon_set::{DaemonSet, Progress};

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For everything.
    pub whole: Duration,
    /// Between two looks.
    pub pause: Duration,
}

/// Makes the pods of the DaemonSet `object` remove what they installed, and waits until each has.
/// `tell` gets a line for each step.
///
/// A DaemonSet that is not there has nothing to be asked for: that is said and no error.
///
/// # Errors
///
/// Every [`Error`]. Those that may pass are tried again until the time is over.
pub async fn remove(
    object: &Object,
    limits: Limits,
    mut tell: impl FnMut(&str),
) -> Result<(), Error> {
    let deadline = Instant::now() + limits.whole;
    let mut wait = Wait { deadline, pause: limits.pause, said: String::new() };
    let found = loop {
        match object.get().await {
            Ok(found) => break found,
            Err(error) => wait.after(error, &mut tell).await?,
        }
    };
    let Some(found) = found else {
        tell("there is no such DaemonSet: nothing is removed");
        return Ok(());
    };
    let patch = found.removing().map_err(|reason| object.not_understood(reason))?;
    let mut state = loop {
        match object.patch(&patch).await {
            Ok(changed) => break changed.progress(),
            Err(error) => wait.after(error, &mut tell).await?,
        }
    };
    loop {
        wait.say(&state.to_string(), &mut tell);
        match state {
            Progress::Done { .. } => return Ok(()),
            Progress::NoNodes => return Err(object.without_nodes()),
            Progress::Unseen | Progress::Underway { .. } => {}
        }
        if Instant::now() + limits.pause > deadline {
            return Err(object.late(limits.whole, &state.to_string()));
        }
        sleep(limits.pause).await;
        match object.get().await {
            Ok(Some(now)) => state = DaemonSet::progress(&now),
            Ok(None) => {
                return Err(object.not_understood("somebody deleted it meanwhile".into()));
            }
            // What it was is still what is known, until the time is over.
            Err(error) if error.may_pass() => wait.say(&error.to_string(), &mut tell),
            Err(error) => return Err(error),
        }
    }
}

/// The patience that is left.
struct Wait {
    deadline: Instant,
    pause: Duration,
    said: String,
}

impl Wait {
    /// Waits a little after an error that may pass; any other, and one at the end, is returned.
    async fn after(&mut self, error: Error, tell: &mut impl FnMut(&str)) -> Result<(), Error> {
        if !error.may_pass() || Instant::now() + self.pause > self.deadline {
            return Err(error);
        }
        self.say(&error.to_string(), tell);
        sleep(self.pause).await;
        Ok(())
    }

    /// Says a line, once.
    fn say(&mut self, line: &str, tell: &mut impl FnMut(&str)) {
        if self.said != line {
            tell(line);
            line.clone_into(&mut self.said);
        }
    }
}
