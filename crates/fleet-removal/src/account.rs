//! Where the API server is, and as whom a pod asks it: what the kubelet gives to each pod.

use std::path::Path;

use foreign_text::bounded::{ReadError, read_path};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use url::Url;
use zeroize::Zeroizing;

use crate::Error;

/// Where the kubelet mounts a pod's service account.
pub const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The longest token; real ones have one or two KiB.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// The longest list of authorities; Kubernetes' own limit for a ConfigMap, which it comes from.
const MAX_AUTHORITIES_BYTES: usize = 1 << 20;

/// The longest name of a namespace, with room for a line end.
const MAX_NAMESPACE_BYTES: usize = 256;

/// A pod's account.
pub struct Account {
    /// The API server.
    pub server: Url,
    /// The namespace of the pod.
    pub namespace: String,
    /// The authorities that the API server's certificate is issued by; never none.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The token. Expires, and is replaced in its file before: so it is read again for each client.
    pub token: Zeroizing<String>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Account");
        shown.field("server", &self.server.as_str());
        shown.field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// The API server's URL from the values of `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.
///
/// # Errors
///
/// [`Error::NoServer`].
pub fn server(host: Option<&str>, port: Option<&str>) -> Result<Url, Error> {
    let missing = |name| Error::NoServer { name };
    let host = host.ok_or(missing("KUBERNETES_SERVICE_HOST"))?;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let port: u16 =
        port.and_then(|port| port.parse().ok()).ok_or(missing("KUBERNETES_SERVICE_PORT"))?;
    let url = Url::parse(&format!("https://{host}:{port}/")).ok();
    // Nothing but host and port: "a/b" is no host.
    url.filter(|url| url.path() == "/" && url.username().is_empty() && url.query().is_none())
        .ok_or(missing("KUBERNETES_SERVICE_HOST"))
}

impl Account {
    /// Reads the account that is mounted at `directory`.
    ///
    /// # Errors
    ///
    /// [`Error::Account`].
    pub fn read(directory: &Path, server: Url) -> Result<Self, Error> {
        let text = |name: &str, limit| {
            let path = directory.join(name);
            let failed = |reason: String| Error::Account { path: path.clone(), reason };
            let bytes = read_path(&path, limit).map_err(|error: ReadError| {
                let reason = error.to_string();
                failed(reason)
            })?;
            match str::from_utf8(&bytes).map(str::trim) {
                Ok("") => Err(failed("it is empty".into())),
                Ok(text) => Ok(Zeroizing::new(text.to_owned())),
                Err(_) => Err(failed("it is not UTF-8".into())),
            }
        };
        let authorities = text("ca.crt", MAX_AUTHORITIES_BYTES)?;
        let authorities = CertificateDer::pem_slice_iter(authorities.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .filter(|list| !list.is_empty())
            .ok_or_else(|| Error::Account {
                path: directory.join("ca.crt"),
                reason: "it has no certificate in PEM".into(),
            })?;
        Ok(Self {
            server,
            namespace: text("namespace", MAX_NAMESPACE_BYTES)?.to_string(),
            authorities,
            token: text("token", MAX_TOKEN_BYTES)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_a_host_and_a_port() {
        let url = |host, port| server(host, port).map(String::from).ok();
        assert_eq!(url(Some("10.0.0.1"), Some("443")).unwrap(), "https://10.0.0.1/");
        assert_eq!(url(Some("fd00::1"), Some("6443")).unwrap(), "https://[fd00::1]:6443/");
        for (host, port) in [
            (None, Some("443")),
            (Some("a"), None),
            (Some("a"), Some("x")),
            (Some("a/b"), Some("443")),
            (Some("user@a"), Some("443")),
            (Some("a?b"), Some("443")),
            (Some(""), Some("443")),
        ] {
            assert!(url(host, port).is_none(), "{host:?} {port:?}");
        }
    }

    #[test]
    fn an_account_without_one_of_its_files_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let read = || Account::read(folder.path(), Url::parse("https://a").unwrap());
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        assert!(read().unwrap_err().to_string().contains("ca.crt"));
        write("ca.crt", "no certificate").unwrap();
        assert!(read().unwrap_err().to_string().contains("PEM"));
        let authority = test_http::pki::Authority::new("cluster").unwrap();
        write("ca.crt", authority.certificate()).unwrap();
        write("namespace", "ns\n").unwrap();
        write("token", "").unwrap();
        assert!(read().unwrap_err().to_string().contains("empty"));
        write("token", "hunter2-token\n").unwrap();
        let account = read().unwrap();
        assert_eq!((account.namespace.as_str(), account.authorities.len()), ("ns", 1));
        assert_eq!(*account.token, "hunter2-token");
        assert!(!format!("{account:?}").contains("hunter2"));
    }
}
