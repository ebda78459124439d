//! The certificate authorities of an entry.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::der_element::{BIT_STRING, SEQUENCE, element};
use crate::limits::MAX_CERTIFICATES;
use crate::section::Section;
use crate::{Rule, Secret};

/// The roots that replace the web's for a pull, or stand beside them. None at all means that nobody
/// is trusted, which forbids the registry.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    certificates: Arc<Vec<CertificateDer<'static>>>,
    /// Whether the web's are trusted too.
    pub(crate) is_beside_web: bool,
    /// The text that has no certificate; whoever wrote it may have meant to say why.
    pub(crate) comment: Option<Secret>,
}

impl Roots {
    /// The text for none without a reason.
    pub(crate) const NONE: &str = "none";

    /// None, so that nobody is trusted, for a reason that is written in their place.
    #[must_use]
    pub fn nobody(reason: &str) -> Self {
        let says_more = !["", Self::NONE].contains(&reason.trim());
        let comment = says_more.then(|| Secret::from(reason.to_owned()));
        Self { comment, ..Self::default() }
    }

    /// Trusts the web's beside them.
    #[must_use]
    pub fn beside_web(self) -> Self {
        Self { is_beside_web: true, ..self }
    }

    /// Adds a certificate that is not among them. Returns whether it has the outer shape of one.
    pub fn add(&mut self, der: Vec<u8>) -> bool {
        let certificate = CertificateDer::from(der);
        let is_one = is_certificate_shaped(&certificate);
        if is_one {
            self.push(certificate);
        }
        is_one
    }

    /// Adds those of others that are not among them.
    pub fn extend(&mut self, others: &Self) {
        others.certificates.iter().for_each(|certificate| self.push(certificate.clone()));
    }

    fn push(&mut self, certificate: CertificateDer<'static>) {
        if !self.certificates.contains(&certificate) {
            Arc::make_mut(&mut self.certificates).push(certificate);
        }
    }

    /// The length of the certificates as they are written, without a limit.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        let blocks = self.certificates.iter().map(|der| {
            let base64 = der.len().div_ceil(3) * 4;
            "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".len()
                + base64
                + base64.div_ceil(64)
        });
        blocks.sum()
    }

    /// The certificates, in the document's order; each has the outer shape of one, and nothing more
    /// is checked.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    /// Whether the web's roots are trusted beside them.
    pub fn is_beside_web(&self) -> bool {
        self.is_beside_web
    }

    /// Whether nobody is trusted.
    pub fn trusts_nobody(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Takes a key that holds them; what is broken is reported, and so is the path of a file, which
    /// was never meant to trust nobody.
    pub(crate) fn read(key: &'static str, section: &mut Section<'_, '_>) -> Option<Self> {
        let text = section.text(key)?;
        let rules = match Self::parse(text) {
            Ok(roots) if roots.trusts_nobody() && is_path(text) => vec![Rule::RootsByPath],
            Ok(roots) => return Some(roots),
            Err(rules) => rules,
        };
        for rule in rules {
            section.problem(key, rule);
        }
        None
    }

    /// Reads the PEM blocks of a text (RFC 7468); what is outside of them is commentary.
    ///
    /// A text in which a block was meant but is not one is refused, because a root that silently
    /// goes missing is found only when a pull fails.
    ///
    /// # Errors
    ///
    /// Every rule that the text breaks; they quote nothing of it.
    pub fn parse(text: &str) -> Result<Self, Vec<Rule>> {
        let blocks = blocks(text).map_err(|rule| vec![rule])?;
        if blocks.len() > MAX_CERTIFICATES {
            return Err(vec![Rule::TooManyCertificates]);
        }
        let mut certificates = Vec::with_capacity(blocks.len());
        let mut broken = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            match block.certificate(index + 1) {
                Ok(certificate) => certificates.push(certificate),
                Err(rule) => broken.push(rule),
            }
        }
        if !broken.is_empty() {
            return Err(broken);
        }
        if certificates.is_empty() {
            return Ok(Self::nobody(text));
        }
        Ok(Self { certificates: certificates.into(), ..Self::default() })
    }
}

/// Whether both trust the same.
impl PartialEq for Roots {
    fn eq(&self, other: &Self) -> bool {
        self.certificates == other.certificates && self.is_beside_web == other.is_beside_web
    }
}

impl Eq for Roots {}

/// Whether a text names a file: by where its path begins, or by how the name of a file with
/// certificates ends. Never true of words such as "none".
fn is_path(text: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["/", "./", "../", "~/", "file:"];
    const ENDS: [&str; 5] = [".pem", ".crt", ".cer", ".cert", ".der"];
    let text = text.trim().to_ascii_lowercase();
    let is_line = !text.contains(['\n', '\r']);
    let begins = BEGINNINGS.iter().any(|begin| text.starts_with(begin));
    let ends = ENDS.iter().any(|end| text.ends_with(end));
    is_line && (begins || ends && !text.contains(' '))
}

/// A PEM block with its boundary lines, not yet decoded.
#[derive(Debug)]
struct Block<'a> {
    label: &'a str,
    text: &'a str,
}

impl Block<'_> {
    fn certificate(&self, block: usize) -> Result<CertificateDer<'static>, Rule> {
        if self.label != "CERTIFICATE" {
            return Err(Rule::PemKind { block });
        }
        let der = CertificateDer::from_pem_slice(self.text.as_bytes())
            .map_err(|_| Rule::PemBase64 { block })?;
        if is_certificate_shaped(&der) { Ok(der) } else { Err(Rule::PemShape { block }) }
    }
}

/// Cuts a text at its boundary lines. Stops at the first that is out of place, after which no count
/// of blocks is certain.
fn blocks(text: &str) -> Result<Vec<Block<'_>>, Rule> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let mut start = 0;
    // A lone carriage return ends a line for the decoder, so it does here.
    for line in text.split_inclusive(['\n', '\r']) {
        let end = start + line.len();
        let incomplete = Err(Rule::PemIncomplete { block: blocks.len() + 1 });
        match (boundary(line)?, open) {
            (Some(Boundary::Begin(label)), None) => open = Some((label, start)),
            (Some(Boundary::End(label)), Some((begun, from))) if begun == label => {
                blocks.push(Block { label, text: &text[from..end] });
                open = None;
            }
            (Some(_), _) => return incomplete,
            (None, _) => {}
        }
        start = end;
    }
    match open {
        Some(_) => Err(Rule::PemIncomplete { block: blocks.len() + 1 }),
        None => Ok(blocks),
    }
}

#[derive(Debug)]
enum Boundary<'a> {
    Begin(&'a str),
    End(&'a str),
}

/// The boundary that a line is, an error if it merely looks like one.
fn boundary(line: &str) -> Result<Option<Boundary<'_>>, Rule> {
    let words = line.trim().trim_start_matches('-').trim_start();
    if !line.trim_start().starts_with('-')
        || !(words.starts_with("BEGIN") || words.starts_with("END"))
    {
        return Ok(None);
    }
    let label = |prefix| {
        let label: &str = line.strip_prefix(prefix)?.trim_end().strip_suffix("-----")?;
        (!label.contains('-')).then_some(label)
    };
    let begin = label("-----BEGIN ").map(Boundary::Begin);
    begin.or_else(|| label("-----END ").map(Boundary::End)).map(Some).ok_or(Rule::PemBoundary)
}

/// Whether bytes are laid out like `Certificate` of RFC 5280, section 4.1: two sequences and a bit
/// string in a sequence, with nothing behind them. TLS does the real check; this one finds what was
/// cut off or pasted wrongly.
fn is_certificate_shaped(der: &[u8]) -> bool {
    let Some((content, [])) = element(SEQUENCE, der) else {
        return false;
    };
    let rest = [SEQUENCE, SEQUENCE, BIT_STRING]
        .into_iter()
        .try_fold(content, |rest, tag| Some(element(tag, rest)?.1));
    rest.is_some_and(<[u8]>::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = include_str!("../tests/data/root.pem");

    #[test]
    fn certificates_are_read_in_order_between_commentary() {
        let text = format!(
            "subject: test root\n{ROOT}\nagain, with other line ends:\r\n{}",
            ROOT.replace('\n', "\r\n")
        );
        let roots = Roots::parse(&text).unwrap();
        assert_eq!(roots.certificates().len(), 2);
        assert_eq!(roots.certificates()[0], roots.certificates()[1]);
        assert_eq!(roots.certificates()[0].len(), 421);
        assert!(!roots.trusts_nobody());
    }

    #[test]
    fn text_without_any_block_trusts_nobody() {
        for text in ["", "none", "none of /etc/ssl/ca.pem", "--- BEGUN ---"] {
            let roots = Roots::parse(text);
            assert_eq!(roots.as_ref().map(Roots::trusts_nobody), Ok(true), "{text:?}");
            assert!(!is_path(text), "{text:?}");
        }
    }

    #[test]
    fn broken_block_is_refused_by_the_rule_it_breaks() {
        let end = "-----END CERTIFICATE-----\n";
        let key = ROOT.replace("CERTIFICATE", "PRIVATE KEY");
        let unknown_kind = ROOT.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
        for (text, rules) in [
            (ROOT.replace(end, ""), vec![Rule::PemIncomplete { block: 1 }]),
            (format!("{ROOT}{}", ROOT.replace(end, "")), vec![Rule::PemIncomplete { block: 2 }]),
            (format!("{}{ROOT}", ROOT.replace(end, "")), vec![Rule::PemIncomplete { block: 1 }]),
            (format!("{ROOT}{end}"), vec![Rule::PemIncomplete { block: 2 }]),
            (
                ROOT.replace("END CERTIFICATE", "END PRIVATE KEY"),
                vec![Rule::PemIncomplete { block: 1 }],
            ),
            (ROOT.replace("-----BEGIN", "----BEGIN"), vec![Rule::PemBoundary]),
            (ROOT.replace("CERTIFICATE-----\nM", "CERTIFICATE----\nM"), vec![Rule::PemBoundary]),
            (ROOT.replace('\n', "\n  ").replace("---B", "  ---B"), vec![Rule::PemBoundary]),
            (ROOT.replace('\n', ""), vec![Rule::PemBoundary]),
            (ROOT.replace('\n', " "), vec![Rule::PemBoundary]),
            (
                format!("{key}{ROOT}{unknown_kind}"),
                vec![Rule::PemKind { block: 1 }, Rule::PemKind { block: 3 }],
            ),
            (ROOT.replacen("MIIB", "MI!B", 1), vec![Rule::PemBase64 { block: 1 }]),
            (ROOT.replacen("MIIB", "MIIBMIIB", 1), vec![Rule::PemShape { block: 1 }]),
            (ROOT.replacen("MIIB", "AIIB", 1), vec![Rule::PemShape { block: 1 }]),
            (format!("-----BEGIN CERTIFICATE-----\n{end}"), vec![Rule::PemShape { block: 1 }]),
            (ROOT.repeat(MAX_CERTIFICATES + 1), vec![Rule::TooManyCertificates]),
        ] {
            assert_eq!(Roots::parse(&text), Err(rules), "{text}");
        }
        assert!(Roots::parse(&ROOT.repeat(MAX_CERTIFICATES)).is_ok());
    }

    #[test]
    fn shape_of_a_certificate_is_three_elements_in_one() {
        let good = [0x30, 7, 0x30, 0, 0x30, 0, 0x03, 1, 0];
        assert!(is_certificate_shaped(&good));
        for length in 0..good.len() {
            assert!(!is_certificate_shaped(&good[..length]), "cut to {length}");
        }
        for bad in [
            &[0x30, 7, 0x30, 0, 0x30, 0, 0x03, 1, 0, 0][..],
            &[0x30, 8, 0x30, 0, 0x30, 0, 0x03, 1, 0, 0],
            &[0x30, 6, 0x30, 0, 0x30, 0, 0x30, 0],
            &[0x30, 4, 0x30, 0, 0x30, 0],
            &[0x31, 7, 0x30, 0, 0x30, 0, 0x03, 1, 0],
            &[0x30, 0x80, 0x30, 0, 0x30, 0, 0x03, 1, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 7, 0x30, 0, 0x30, 0, 0x03, 1, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert!(!is_certificate_shaped(bad), "{bad:?}");
        }
        assert!(is_certificate_shaped(&[0x30, 0x81, 7, 0x30, 0, 0x30, 0, 0x03, 1, 0]));
        assert!(is_certificate_shaped(&[0x30, 0x84, 0, 0, 0, 7, 0x30, 0, 0x30, 0, 0x03, 1, 0]));
    }
}
