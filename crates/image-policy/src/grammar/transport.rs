//! Scopes under the transports that no image of a registry has.
//!
//! Nothing here asks them, but a text that containers/image refuses is no policy here either. A
//! transport that is not known has any scopes.

use crate::identity::is_digest;

/// Checks a scope of a transport other than `docker`.
///
/// # Errors
///
/// Why the transport has no such scope, for behind the scope's path.
pub(super) fn check_scope(transport: &str, scope: &str) -> Result<(), &'static str> {
    if scope.is_empty() {
        return Ok(());
    }
    match transport {
        "docker-archive" | "tarball" => {
            Err("is a scope of a transport that has none but \"\"; take it out")
        }
        "dir" | "oci" | "oci-archive" | "sif" if !is_clean_path(scope) => Err(
            "is no absolute path without \".\", \"..\", \"//\" and \"/\" at its end; for every \
            path write \"\"",
        ),
        "docker-daemon" if is_digest(scope) => {
            Err("is a digest, which is no scope of this transport; take it out")
        }
        "atomic" if !is_of_cluster(scope) => {
            Err("is not HOST/NAMESPACE/STREAM:TAG or a beginning of it")
        }
        "containers-storage" if !is_of_storage(scope) => {
            Err("does not begin with a store, such as [overlay@/var/lib/containers/storage]")
        }
        _ => Ok(()),
    }
}

/// An absolute path in its one spelling, below the root.
fn is_clean_path(text: &str) -> bool {
    let parts = text.strip_prefix('/').map(|rest| rest.split('/'));
    parts.is_some_and(|mut parts| parts.all(|part| !matches!(part, "" | "." | "..")))
}

/// Whole parts of `HOST/NAMESPACE/STREAM:TAG`, a tag in the last only.
fn is_of_cluster(text: &str) -> bool {
    let parts: Vec<_> = text.split('/').collect();
    let colons = |part: &&str| part.matches(':').count();
    match parts.as_slice() {
        [_] => true,
        [_, namespace] => colons(namespace) == 0,
        [_, namespace, stream] => colons(namespace) == 0 && colons(stream) <= 1,
        _ => false,
    }
}

/// `[DRIVER@ROOT]` or `[ROOT]`, and behind it a name with a digest, an identifier or both.
fn is_of_storage(text: &str) -> bool {
    let Some((store, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let root = match store.split_once('@') {
        Some((driver, root)) if !driver.is_empty() => root,
        Some(_) => return false,
        None => store,
    };
    let is_identifier = |text: &str| is_digest(&format!("sha256:{text}"));
    let is_image = match *rest.splitn(3, '@').collect::<Vec<_>>() {
        [_, one] => is_identifier(one) || is_digest(one),
        [_, digest, identifier] => is_digest(digest) && is_identifier(identifier),
        _ => true,
    };
    root.starts_with('/') && is_image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_those_of_their_transport() {
        let hex = "0".repeat(64);
        let store = "[overlay@/var/lib/containers/storage+/run]";
        for (transport, scope, is_valid) in [
            ("docker-archive", "/tmp/a.tar", false),
            ("tarball", "/tmp/a.tar", false),
            ("dir", "/tmp/a", true),
            ("dir", "tmp/a", false),
            ("dir", "/", false),
            ("oci", "/tmp/a/", false),
            ("oci", "/tmp//a", false),
            ("oci", "/tmp/./a", false),
            ("oci-archive", "/tmp/../a", false),
            ("sif", "/tmp/a.sif", true),
            ("docker-daemon", "registry.test/app:1", true),
            ("docker-daemon", &format!("sha256:{hex}"), false),
            ("docker-daemon", &format!("sha512:{hex}"), true),
            ("atomic", "host:5000/project/stream:tag", true),
            ("atomic", "host:5000/project", true),
            ("atomic", "host/project:tag", false),
            ("atomic", "host/project/stream:a:b", false),
            ("atomic", "host/project/stream/more", false),
            ("containers-storage", store, true),
            ("containers-storage", "[/root]", true),
            ("containers-storage", &format!("{store}app:1@{hex}"), true),
            ("containers-storage", &format!("{store}app@sha256:{hex}@{hex}"), true),
            ("containers-storage", &format!("{store}app@{hex}@{hex}"), false),
            ("containers-storage", &format!("{store}app@1"), false),
            ("containers-storage", "[overlay@root]", false),
            ("containers-storage", "[@/root]", false),
            ("containers-storage", "[]", false),
            ("containers-storage", "app:1", false),
            ("of-tomorrow", "any: thing", true),
        ] {
            let found = check_scope(transport, scope).is_ok();
            assert_eq!(found, is_valid, "{transport} {scope}");
            assert_eq!(check_scope(transport, ""), Ok(()));
        }
    }
}
