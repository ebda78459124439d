//! Which account of an entry worked, so that the next pull begins with it.
//!
//! Only a place in the document is kept, never what stands there: a new document may have other
//! accounts in other places, and then the next pull begins with the wrong one, which costs it a
//! request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pull_route::Source;

/// How many repositories are remembered. More than a guest pulls from; a full table is begun anew.
const MAX_KNOWN: usize = 256;

/// The accounts that worked, by registry and repository: two repositories of one registry may be
/// open to different ones.
#[derive(Debug, Default)]
pub struct KnownAccounts(Mutex<HashMap<String, usize>>);

impl KnownAccounts {
    /// Puts the account that worked before the others of a source.
    pub fn order(&self, source: &mut Source, repository: &str) {
        let key = key(&source.host(), repository);
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = known.get(&key).copied();
        let at = source.accounts.iter().position(|account| Some(account.number) == number);
        if let Some(at) = at {
            source.accounts[..=at].rotate_right(1);
        }
    }

    /// Remembers that a registry gave something of a repository to an account.
    pub fn worked(&self, host: &str, repository: &str, number: usize) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(host, repository);
        if known.len() >= MAX_KNOWN && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, number);
    }
}

fn key(host: &str, repository: &str) -> String {
    format!("{host}/{repository}")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use registry_client::Documents;
    use registry_config::{Credentials, RegistryHost};

    use super::*;

    fn source() -> Source {
        let account = |user: &str| format!("username = \"{user}\"\npassword = \"x\"\n");
        let mut text = format!("[registries.\"r.corp\"]\n{}", account("a0"));
        for user in ["a1", "a2"] {
            text += &format!("[[registries.\"r.corp\".also]]\n{}", account(user));
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let settings = Documents::of(file.path()).load().unwrap();
        let host = RegistryHost::parse("r.corp").unwrap();
        let plan = settings.plan(&host, "team/app").unwrap();
        plan.fill(None, None).unwrap().sources.remove(0)
    }

    fn order(known: &KnownAccounts, repository: &str) -> Vec<String> {
        let mut source = source();
        known.order(&mut source, repository);
        let user = |account: &pull_route::EntryAccount| match &account.credentials {
            Credentials::Basic { username, .. } => username.clone(),
            other => panic!("{other:?}"),
        };
        source.accounts.iter().map(user).collect()
    }

    #[test]
    fn the_account_that_worked_comes_first_and_the_others_stay_in_order() {
        let known = KnownAccounts::default();
        assert_eq!(order(&known, "team/app"), ["a0", "a1", "a2"]);
        known.worked("r.corp", "team/app", 2);
        assert_eq!(order(&known, "team/app"), ["a2", "a0", "a1"]);
        assert_eq!(order(&known, "team/other"), ["a0", "a1", "a2"]);
        known.worked("r.corp", "team/app", 1);
        assert_eq!(order(&known, "team/app"), ["a1", "a0", "a2"]);
        // Of a document that has changed meanwhile.
        known.worked("r.corp", "team/app", 7);
        assert_eq!(order(&known, "team/app"), ["a0", "a1", "a2"]);
        for number in 0..2 * MAX_KNOWN {
            known.worked("r.corp", &number.to_string(), 0);
        }
        assert!(known.0.lock().unwrap().len() <= MAX_KNOWN);
    }
}
