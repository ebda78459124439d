//! What came of the scratch disk in this boot, kept where a later service finds it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// What a record says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// There is no such disk.
    None,
    /// It was mounted.
    Mounted,
    /// It could not be made, and why.
    Failed(String),
}

/// What stands in a record whose service ended before it was done.
const BEGUN: &str = "the service ended while it made the scratch disk";
const NONE: &str = "none";
const MOUNTED: &str = "mounted";

/// The file beside a mount point.
#[derive(Debug)]
pub(crate) struct Record(PathBuf);

impl Record {
    pub(crate) fn of(place: &Path) -> Self {
        let mut name = place.as_os_str().to_owned();
        name.push(".scratch");
        Self(name.into())
    }

    pub(crate) fn read(&self) -> Result<Option<Known>, Error> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(Some(match text.as_str() {
                NONE => Known::None,
                MOUNTED => Known::Mounted,
                reason => Known::Failed(reason.to_owned()),
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("read", &self.0)(error)),
        }
    }

    pub(crate) fn begin(&self) -> Result<(), Error> {
        self.write(BEGUN)
    }

    pub(crate) fn end(&self, made: &Result<bool, Error>) -> Result<(), Error> {
        match made {
            Ok(true) => self.write(MOUNTED),
            Ok(false) => self.write(NONE),
            Err(error) => self.write(&error.to_string()),
        }
    }

    fn write(&self, text: &str) -> Result<(), Error> {
        fs::write(&self.0, text).map_err(Error::file("write", &self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_the_next_service() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("store");
        let record = Record::of(&place);
        assert_eq!(record.read().unwrap(), None);
        record.begin().unwrap();
        let failed = |reason: &str| Some(Known::Failed(reason.to_owned()));
        assert_eq!(record.read().unwrap(), failed(BEGUN));
        for (made, known) in [
            (Ok(true), Some(Known::Mounted)),
            (Ok(false), Some(Known::None)),
            (
                Err(Error::ReadOnly("vda".to_owned())),
                failed("the scratch disk vda is read-only"),
            ),
        ] {
            record.end(&made).unwrap();
            assert_eq!(Record::of(&place).read().unwrap(), known);
        }
        // Nothing is looked for again.
        let again = crate::prepare(&place).unwrap_err();
        assert!(again.to_string().ends_with("vda is read-only"), "{again}");
        record.end(&Ok(true)).unwrap();
        assert!(matches!(crate::prepare(&place), Err(Error::Gone)));
    }
}
