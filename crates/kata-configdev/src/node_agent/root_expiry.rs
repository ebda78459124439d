//! When the roots expire that a document has for its registries.

use registry_config::Document;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// When the first root of each registry with roots of its own expires, in seconds since 1970. A
/// certificate that cannot be read is passed over: no pull trusts it.
pub(super) fn first(document: &Document) -> Vec<(String, i64)> {
    let mut found = Vec::new();
    for (name, entry) in document.registries.iter() {
        let certificates = entry.ca_certs.iter().flat_map(|roots| roots.certificates());
        let ends = certificates.filter_map(|certificate| {
            let certificate = Certificate::from_der(certificate).ok()?;
            let end = certificate.tbs_certificate().validity().not_after;
            i64::try_from(end.to_unix_duration().as_secs()).ok()
        });
        if let Some(first) = ends.min() {
            found.push((name.to_string(), first));
        }
    }
    found
}
