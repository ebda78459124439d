//! The data hub's configuration, as the agent gives it to the hub: TOML, of which only the socket
//! matters here.

use std::path::{Path, PathBuf};

use foreign_text::bounded::{if_there, read_path, read_stream};
use foreign_text::shown;
use toml::{Table, Value};

use crate::hub::SOCKET;
use crate::socket::Address;

/// Where Kata's agent, or the initdata processor in its layout, leaves initdata's `cdh.toml`.
const OF_INITDATA: &str = "/run/confidential-containers/initdata/cdh.toml";

/// The variable that names another file.
const VARIABLE: &str = "CDH_CONFIG";

/// What the hub takes its broker from where it has no configuration.
const BROKER_VARIABLE: &str = "AA_KBC_PARAMS";
const BROKER_PARAMETER: &str = "agent.aa_kbc_params=";

/// The longest configuration, as long as what the puller reads of it.
const MAX_BYTES: usize = 128 << 10;

/// The longest kernel command line.
const MAX_CMDLINE_BYTES: usize = 64 << 10;

/// The configuration of a hub whose socket was moved out of the way.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where callers look for the hub.
    pub socket: Address,
    /// Where the hub listens.
    pub upstream: PathBuf,
    /// The configuration that makes it do so.
    pub text: String,
}

impl Moved {
    /// Reads the file at `path`, or what the environment names, or initdata's; without any, the hub
    /// gets what it would have chosen itself.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn load(path: Option<PathBuf>) -> Result<Self, String> {
        let named = path.or_else(|| Some(std::env::var_os(VARIABLE)?.into()));
        let path = named.as_deref().unwrap_or(Path::new(OF_INITDATA));
        let about = |error: &dyn std::fmt::Display| {
            format!("the data hub's configuration {}: {error}", path.display())
        };
        let mut read = read_path(path, MAX_BYTES).map(Some);
        if named.is_none() {
            read = if_there(read.map(Option::unwrap_or_default));
        }
        match read.map_err(|error| about(&error))? {
            Some(text) => Self::of(&text).map_err(|error| about(&error)),
            None => {
                let broker = std::env::var(BROKER_VARIABLE).ok();
                Self::without(broker.or_else(broker_of_kernel).as_deref())
            }
        }
    }

    fn of(text: &[u8]) -> Result<Self, String> {
        let table = toml::from_slice(text).map_err(|error| shown(error.message()).to_string())?;
        Self::from_table(table)
    }

    /// With `broker` (`KBC::URL`), as the hub reads it where there is no file.
    fn without(broker: Option<&str>) -> Result<Self, String> {
        let (name, url) = match broker.map(|text| text.split_once("::")) {
            None => ("offline_fs_kbc", ""),
            Some(Some((name, url))) if !url.contains("::") => (name, url),
            Some(_) => return Err(format!("{BROKER_PARAMETER}: expected KBC::URL")),
        };
        let kbc = [("name", name), ("url", url)];
        let kbc: Table =
            kbc.map(|(key, value)| (key.to_owned(), value.into())).into_iter().collect();
        Self::from_table(Table::from_iter([("kbc".to_owned(), Value::Table(kbc))]))
    }

    fn from_table(mut table: Table) -> Result<Self, String> {
        // The hub's reader of configurations has known versions that ignore the case of keys.
        let keys = table.keys().filter(|key| key.eq_ignore_ascii_case("socket"));
        let mut socket = Address::fixed(SOCKET);
        for key in keys.cloned().collect::<Vec<_>>() {
            let value = table.remove(&key);
            let text = value.as_ref().and_then(Value::as_str).unwrap_or_default();
            socket = text.parse().map_err(|error| format!("{key}: {error}"))?;
        }
        let name = socket.path().file_name().unwrap_or_default().display();
        let upstream = socket.path().with_file_name(format!("upstream-{name}"));
        let address = format!("unix://{}", upstream.display());
        let _: Address = address.parse().map_err(|error| format!("socket: {error}"))?;
        table.insert("socket".to_owned(), address.into());
        Ok(Self { text: table.to_string(), socket, upstream })
    }
}

fn broker_of_kernel() -> Option<String> {
    let cmdline = std::fs::File::open("/proc/cmdline").ok()?;
    let cmdline = read_stream(cmdline, MAX_CMDLINE_BYTES).ok()?;
    let cmdline = str::from_utf8(&cmdline).ok()?;
    let mut words = cmdline.split_ascii_whitespace();
    words.find_map(|word| word.strip_prefix(BROKER_PARAMETER)).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_socket_is_another_one() {
        let rest = "credentials = []\n[kbc]\nname = \"cc_kbc\"\nurl = \"https://kbs\"\n\
            [image.extra]\n\"a b\" = [1.5, 2024-01-01, \"\\u0000\"]\n";
        for (first, socket) in [
            ("", SOCKET),
            ("socket = \"unix:///run/a/hub.sock\"\n", "/run/a/hub.sock"),
            ("Socket = \"unix:///run/a/hub.sock\"\n", "/run/a/hub.sock"),
        ] {
            let moved = Moved::of(format!("{first}{rest}").as_bytes()).unwrap();
            assert_eq!(moved.socket.path(), Path::new(socket));
            let mut written = table(&moved.text);
            let upstream = written.remove("socket").unwrap();
            assert_eq!(upstream.as_str().unwrap(), format!("unix://{}", moved.upstream.display()));
            assert_eq!(written, table(rest));
        }
        let upstream = Moved::of(b"").unwrap().upstream;
        assert_eq!(upstream, Path::new("/run/confidential-containers/upstream-cdh.sock"));
        for (text, words) in [
            ("socket = 1", "begins with \"unix:\""),
            ("socket = \"127.0.0.1:50000\"", "begins with \"unix:\""),
            ("socket = \"unix:run/a\"", "absolute"),
            ("a = b", ""),
            ("socket = \"unix:///A\"\nSOCKET = \"x\"", ""),
        ] {
            let error = Moved::of(text.as_bytes()).unwrap_err();
            assert!(error.contains(words) && !error.is_empty(), "{text}: {error}");
        }
        let long = format!("socket = \"unix:///{}\"", "a".repeat(95));
        assert!(Moved::of(long.as_bytes()).is_err());
    }

    #[test]
    fn without_a_file_the_hub_has_the_broker_that_it_would_choose() {
        for (parameter, name, url) in [
            (None, "offline_fs_kbc", ""),
            (Some("cc_kbc::http://kbs:8080"), "cc_kbc", "http://kbs:8080"),
        ] {
            let written = table(&Moved::without(parameter).unwrap().text);
            assert_eq!(written["kbc"]["name"].as_str(), Some(name));
            assert_eq!(written["kbc"]["url"].as_str(), Some(url));
            assert_eq!(written.len(), 2);
        }
        for parameter in ["", "cc_kbc", "a::b::c"] {
            assert!(Moved::without(Some(parameter)).is_err(), "{parameter}");
        }
    }
}
