//! Unix sockets that only root may connect to.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::Error;

/// The longest path that the kernel takes, less what the temporary name adds.
const MAX_PATH_BYTES: usize = 100;

/// Where to listen, written `unix:PATH` or `unix://PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(PathBuf);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text
            .strip_prefix("unix:")
            .ok_or("an address begins with \"unix:\", as in unix:/run/image.socket")?;
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.starts_with('/') {
            return Err("the path of a socket is absolute".to_owned());
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(format!("the path of a socket has at most {MAX_PATH_BYTES} bytes"));
        }
        Ok(Self(path.into()))
    }
}

impl Address {
    /// A path that is known to be absolute and short.
    pub fn fixed(path: &'static str) -> Self {
        Self(path.into())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A socket that accepts connections. Its name is removed when dropped, if it was made here and
/// nobody else took it since.
#[derive(Debug)]
pub struct Listening {
    path: PathBuf,
    listener: UnixListener,
    is_inherited: bool,
    /// Device and inode of the name, as long as it has one. The kernel keeps the inode for as long
    /// as the socket is open, so no other socket gets the number.
    named: Option<(u64, u64)>,
}

impl Listening {
    /// Listens, replacing a socket that an earlier service left behind. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Socket`] if the name belongs to something else or to a service that is alive.
    pub fn bind(address: &Address) -> Result<Self, Error> {
        let path = address.0.clone();
        let failed = |action: &str| {
            let (path, action) = (path.clone(), action.to_owned());
            move |error: io::Error| Error::Socket {
                path,
                rule: format!("cannot be {action}: {error}"),
            }
        };
        if let Some(directory) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(directory);
            made.map_err(failed("given a directory"))?;
        }
        clear(&path)?;
        // Bound under another name first: no caller connects before the mode is set. And the rename
        // replaces nothing that another process made in the meantime.
        let mut temporary = path.clone().into_os_string();
        temporary.push(".new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("made")(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&temporary).map_err(failed("made"))?;
        fs::set_permissions(&temporary, Permissions::from_mode(0o600))
            .map_err(failed("closed to others"))?;
        let renamed = renameat_with(CWD, &temporary, CWD, &path, RenameFlags::NOREPLACE);
        renamed.map_err(|error| failed("named")(error.into()))?;
        Ok(Self { named: identity(&path), path, listener, is_inherited: false })
    }

    /// Whether callers who look for the name still find this socket. Kata's agent removes the hub's
    /// before it starts a hub of its own.
    pub fn is_found(&self) -> bool {
        self.named.is_some() && identity(&self.path) == self.named
    }

    /// The sockets that the service manager listens on and handed over. It made them, with the mode
    /// that it was told, and it keeps them for the next service.
    ///
    /// # Errors
    ///
    /// [`Error::Socket`] if what was handed over is no unix socket, or has no name.
    pub fn inherited() -> Result<Vec<Self>, Error> {
        let refused = |error: io::Error| Error::Socket {
            path: "LISTEN_FDS".into(),
            rule: format!("cannot be taken from the service manager: {error}"),
        };
        let sockets = linux_sys::inherited::unix_listeners().map_err(refused)?;
        let named = |listener: UnixListener| {
            let address = listener.local_addr().map_err(refused)?;
            let path = address.as_pathname().map(Path::to_owned);
            let path = path.ok_or_else(|| refused(io::Error::other("it has no path")))?;
            Ok(Self { named: identity(&path), path, listener, is_inherited: true })
        };
        sockets.into_iter().map(named).collect()
    }

    /// The same name, to listen there once more.
    pub fn address(&self) -> Address {
        Address(self.path.clone())
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A handle for the runtime.
    pub fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.is_inherited && self.is_found() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a name stands for.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Leaves nothing at the name, or says whose it is.
fn clear(path: &Path) -> Result<(), Error> {
    let refuse = |rule: &str| Err(Error::Socket { path: path.to_owned(), rule: rule.to_owned() });
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return refuse(&format!("cannot be examined: {error}")),
    };
    if !found.file_type().is_socket() {
        return refuse("is the name of something that is no socket");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .or_else(|error| refuse(&format!("is left over and cannot be removed: {error}"))),
        Err(error) => refuse(&format!("belongs to something that does not answer: {error}")),
        Ok(_) => refuse("is served by another process already"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        assert_eq!("unix:/run/a".parse(), Ok(Address("/run/a".into())));
        assert_eq!("unix:///run/a".parse(), Ok(Address("/run/a".into())));
        for text in [
            "",
            "/run/a",
            "unix:",
            "unix:run/a",
            "vsock:1",
            &format!("unix:/{}", "a".repeat(MAX_PATH_BYTES)),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/socket");
        let address = Address(path.clone());
        let alive = Listening::bind(&address).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Listening::bind(&address).unwrap_err().to_string().contains("another process"));
        drop(alive);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        drop(Listening::bind(&address).unwrap());
        fs::write(&path, "precious").unwrap();
        assert!(Listening::bind(&address).unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
