//! `node-error`: why the node has no document for a guest, in the place of one.

use std::fmt;

use foreign_text::shown;
use serde::{Serialize, Serializer};

use crate::limits::MAX_NODE_ERROR_BYTES;
use crate::section::Section;
use crate::{Document, Rule};

/// What ends a reason that was cut.
const ELLIPSIS: char = '…';

/// The node's own words on why it has no document. Nobody vouches for them: they are shown as
/// foreign words are, on one line.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeError(String);

impl NodeError {
    /// A reason, cut to [`MAX_NODE_ERROR_BYTES`] where it is longer.
    pub fn new(reason: &str) -> Self {
        if reason.is_empty() {
            return Self("it gives no reason".to_owned());
        }
        if reason.len() <= MAX_NODE_ERROR_BYTES {
            return Self(reason.to_owned());
        }
        let end = reason.floor_char_boundary(MAX_NODE_ERROR_BYTES - ELLIPSIS.len_utf8());
        Self(format!("{}{ELLIPSIS}", &reason[..end]))
    }

    /// The reason as it was given, which no person sees.
    pub(crate) fn raw(&self) -> &str {
        &self.0
    }

    /// The document that consists of it.
    pub fn to_document(&self) -> String {
        let document = Document { node_error: Some(self.clone()), ..Document::default() };
        std::mem::take(&mut *document.written())
    }

    /// Reads the value that was taken, and refuses everything beside it.
    pub(crate) fn read(reason: Option<&str>, section: &mut Section<'_, '_>) -> Option<Self> {
        for other in section.rest() {
            section.findings.problem(&other, Rule::BesideNodeError);
        }
        let reason = match reason? {
            "" => Err(Rule::EmptyNodeError),
            reason if reason.len() > MAX_NODE_ERROR_BYTES => Err(Rule::NodeErrorTooLong),
            reason => Ok(Self(reason.to_owned())),
        };
        section.kept("node-error", reason)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shown(&self.0).up_to(MAX_NODE_ERROR_BYTES).fmt(f)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for NodeError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
