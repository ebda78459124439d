//! The requirements, one type after the other.

use super::identity;
use crate::base64;
use crate::identity::Identity;
use crate::json_node::{InvalidPolicy, Node};
use crate::policy::{KeyPlace, Requirement, Signed, Unsupported};

/// The ways to name the keys of a log, of which one may be there.
const REKOR: [&str; 4] =
    ["rekorPublicKeyPath", "rekorPublicKeyPaths", "rekorPublicKeyData", "rekorPublicKeyDatas"];

pub(super) fn read(
    node: &Node<'_, '_>,
    default_identity: &Identity,
) -> Result<Requirement, InvalidPolicy> {
    match node.peek("type") {
        Some("insecureAcceptAnything") => {
            node.members(&["type"])?;
            Ok(Requirement::Accept)
        }
        Some("reject") => {
            node.members(&["type"])?;
            Ok(Requirement::Reject)
        }
        Some("sigstoreSigned") => sigstore_signed(node, default_identity),
        Some("signedBy") => signed_by(node),
        Some("signedBaseLayer") => {
            let members = node.members(&["type", "baseLayerIdentity"])?;
            identity::read(&members.need("baseLayerIdentity")?)?;
            Ok(Requirement::Unsupported(Unsupported::SignedBaseLayer))
        }
        _ => Err(node.refuse(
            "has no type that is known: insecureAcceptAnything, reject, sigstoreSigned, signedBy, \
            signedBaseLayer",
        )),
    }
}

fn sigstore_signed(
    node: &Node<'_, '_>,
    default_identity: &Identity,
) -> Result<Requirement, InvalidPolicy> {
    let members = node.members(&[
        "type",
        "keyPath",
        "keyPaths",
        "keyData",
        "keyDatas",
        "fulcio",
        "pki",
        "rekorPublicKeyPath",
        "rekorPublicKeyPaths",
        "rekorPublicKeyData",
        "rekorPublicKeyDatas",
        "signedIdentity",
    ])?;
    let mut sources = keys(members, ["keyPath", "keyPaths", "keyData", "keyDatas"])?;
    let fulcio = members.get("fulcio").map(|node| fulcio(&node)).transpose()?;
    let pki = members.get("pki").map(|node| pki(&node)).transpose()?;
    let rekor = keys(members, REKOR)?;
    let count = sources.len() + usize::from(fulcio.is_some()) + usize::from(pki.is_some());
    if count != 1 {
        return Err(members.refuse(
            "must have exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio and pki",
        ));
    }
    check_rekor(members, rekor.len(), fulcio.is_some(), pki.is_some())?;
    let identity = members.get("signedIdentity");
    let is_default_identity = identity.is_none();
    let identity = match identity {
        Some(node) => identity::read(&node)?,
        None => default_identity.clone(),
    };
    let unsupported = match (fulcio, pki, rekor.is_empty()) {
        (Some(()), _, _) => Some(Unsupported::Fulcio),
        (_, Some(()), _) => Some(Unsupported::Pki),
        (None, None, false) => Some(Unsupported::Rekor),
        (None, None, true) => None,
    };
    if let Some(unsupported) = unsupported {
        return Ok(Requirement::Unsupported(unsupported));
    }
    Ok(Requirement::Signed(Signed {
        keys: sources.pop().unwrap_or_default(),
        identity,
        is_default_identity,
    }))
}

fn check_rekor(
    members: &Node<'_, '_>,
    count: usize,
    is_fulcio: bool,
    is_pki: bool,
) -> Result<(), InvalidPolicy> {
    if count > 1 {
        return Err(members.refuse(format!("must have at most one of {}", REKOR.join(", "))));
    }
    if is_fulcio && count == 0 {
        return Err(members.refuse(format!("has fulcio without one of {}", REKOR.join(", "))));
    }
    if is_pki && count > 0 {
        return Err(members.refuse("has pki and the key of a log, which nothing verifies"));
    }
    Ok(())
}

/// The lists of keys that the members give: by a path, some paths, data and some data.
///
/// As in containers/image a path that is empty or `null` is none, an empty list is an error, and
/// empty data is a key, which nothing fulfils.
fn keys(
    members: &Node<'_, '_>,
    [path, paths, data, datas]: [&str; 4],
) -> Result<Vec<Vec<KeyPlace>>, InvalidPolicy> {
    let mut sources = Vec::new();
    if let Some(node) = members.get(path)
        && let Some(path) = node.text_or_null()?.filter(|path| !path.is_empty())
    {
        sources.push(vec![KeyPlace::Path(path.to_owned())]);
    }
    if let Some(node) = members.get(paths) {
        let read = |item: &Node<'_, '_>| {
            let path = item.text_or_null()?.unwrap_or_default();
            Ok(KeyPlace::Path(path.to_owned()))
        };
        sources.push(some(&node, read)?);
    }
    if let Some(node) = members.get(data)
        && !node.is_null()
    {
        sources.push(vec![inline(&node)?]);
    }
    if let Some(node) = members.get(datas) {
        sources.push(some(&node, inline)?);
    }
    Ok(sources)
}

/// A list with at least one element.
fn some(
    node: &Node<'_, '_>,
    read: impl Fn(&Node<'_, '_>) -> Result<KeyPlace, InvalidPolicy>,
) -> Result<Vec<KeyPlace>, InvalidPolicy> {
    let items = node.items()?;
    if items.is_empty() {
        return Err(node.refuse("has no entry"));
    }
    items.iter().map(read).collect()
}

/// A key in the text: PEM, as Confidential Containers write it, or base64 of PEM. No text is both.
fn inline(node: &Node<'_, '_>) -> Result<KeyPlace, InvalidPolicy> {
    let text = node.text_or_null()?.unwrap_or_default();
    if text.contains("-----BEGIN ") {
        return Ok(KeyPlace::Inline(text.as_bytes().to_vec()));
    }
    let key = base64::decode(text);
    key.map(KeyPlace::Inline).ok_or_else(|| {
        node.refuse(
            "is neither PEM nor base64: standard alphabet, padding, no line break (`base64 -w0 \
            cosign.pub`)",
        )
    })
}

/// Whether a member has a text that is not empty; data must be that of a key.
fn is_given(members: &Node<'_, '_>, name: &str) -> Result<bool, InvalidPolicy> {
    let Some(node) = members.get(name) else {
        return Ok(false);
    };
    if name.ends_with("Data") {
        inline(&node)?;
        return Ok(!node.is_null());
    }
    Ok(node.text_or_null()?.is_some_and(|text| !text.is_empty()))
}

fn fulcio(node: &Node<'_, '_>) -> Result<(), InvalidPolicy> {
    let members = node.members(&["caPath", "caData", "oidcIssuer", "subjectEmail"])?;
    if is_given(members, "caPath")? == is_given(members, "caData")? {
        return Err(members.refuse("must have exactly one of caPath and caData"));
    }
    for name in ["oidcIssuer", "subjectEmail"] {
        if !is_given(members, name)? {
            return Err(members.refuse(format!("has no {name}")));
        }
    }
    Ok(())
}

fn pki(node: &Node<'_, '_>) -> Result<(), InvalidPolicy> {
    let members = node.members(&[
        "caRootsPath",
        "caRootsData",
        "caIntermediatesPath",
        "caIntermediatesData",
        "subjectEmail",
        "subjectHostname",
    ])?;
    if is_given(members, "caRootsPath")? == is_given(members, "caRootsData")? {
        return Err(members.refuse("must have exactly one of caRootsPath and caRootsData"));
    }
    if is_given(members, "caIntermediatesPath")? && is_given(members, "caIntermediatesData")? {
        return Err(
            members.refuse("must have at most one of caIntermediatesPath and caIntermediatesData")
        );
    }
    if !is_given(members, "subjectEmail")? && !is_given(members, "subjectHostname")? {
        return Err(members.refuse("must have one of subjectEmail and subjectHostname"));
    }
    Ok(())
}

fn signed_by(node: &Node<'_, '_>) -> Result<Requirement, InvalidPolicy> {
    const KEY_TYPES: [&str; 4] =
        ["GPGKeys", "signedByGPGKeys", "X509Certificates", "signedByX509CAs"];
    let members =
        node.members(&["type", "keyType", "keyPath", "keyPaths", "keyData", "signedIdentity"])?;
    let key_type = members.need("keyType")?;
    if !KEY_TYPES.contains(&key_type.text()?) {
        return Err(key_type.refuse("is not GPGKeys"));
    }
    // Here a member counts that is there, and it must give a key; an empty list gives one.
    let is_path = is_given(members, "keyPath")?;
    let is_data = is_given(members, "keyData")?;
    let mut is_list = false;
    if let Some(node) = members.get("keyPaths") {
        for item in node.items()? {
            item.text_or_null()?;
        }
        is_list = !node.is_null();
    }
    let there = ["keyPath", "keyPaths", "keyData"];
    let there = there.iter().filter(|name| members.get(name).is_some());
    if there.count() != 1 || !(is_path || is_data || is_list) {
        return Err(members.refuse("must have exactly one of keyPath, keyPaths and keyData"));
    }
    if let Some(node) = members.get("signedIdentity") {
        identity::read(&node)?;
    }
    Ok(Requirement::Unsupported(Unsupported::SignedBy))
}
