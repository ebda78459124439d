//! Tar archives as honest and hostile builders write them.

use tar::{EntryType, Header};

/// A tar archive in the making, as bytes without their end; names go in as they are, unlike with a
/// writer for honest people.
#[derive(Clone, Debug, Default)]
pub struct Tar(pub Vec<u8>);

impl Tar {
    /// Adds an entry of any kind, owned by root, with a link target where it has one.
    pub fn entry(
        self,
        kind: EntryType,
        name: impl AsRef<[u8]>,
        link: impl AsRef<[u8]>,
        content: &[u8],
    ) -> Self {
        self.entry_with(kind, name, link, content, |_| {})
    }

    /// Adds an entry whose header is changed before its sum is set.
    pub fn entry_with(
        mut self,
        kind: EntryType,
        name: impl AsRef<[u8]>,
        link: impl AsRef<[u8]>,
        content: &[u8],
        change: impl FnOnce(&mut Header),
    ) -> Self {
        let mut header = Header::new_ustar();
        let (name, link) = (name.as_ref(), link.as_ref());
        // Names that do not fit are a mistake of the test's.
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(kind);
        header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        change(&mut header);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Adds a regular file with a header of its own.
    pub fn file_with(
        self,
        name: impl AsRef<[u8]>,
        content: impl AsRef<[u8]>,
        change: impl FnOnce(&mut Header),
    ) -> Self {
        self.entry_with(EntryType::Regular, name, "", content.as_ref(), change)
    }

    /// Adds a directory with a header of its own.
    pub fn directory_with(self, name: impl AsRef<[u8]>, change: impl FnOnce(&mut Header)) -> Self {
        self.entry_with(EntryType::Directory, name, "", b"", change)
    }

    /// Adds a hard link with a header of its own.
    pub fn hard_link_with(
        self,
        name: impl AsRef<[u8]>,
        target: impl AsRef<[u8]>,
        change: impl FnOnce(&mut Header),
    ) -> Self {
        self.entry_with(EntryType::Link, name, target, b"", change)
    }

    /// Adds a regular file.
    pub fn file(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Regular, name, "", content.as_ref())
    }

    /// Adds a directory.
    pub fn directory(self, name: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Directory, name, "", b"")
    }

    /// Adds a symbolic link.
    pub fn symlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Symlink, name, target, b"")
    }

    /// Adds a hard link.
    pub fn hard_link(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.entry(EntryType::Link, name, target, b"")
    }

    /// Adds PAX records for the next entry; lengths are right whatever the values hold.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        self.entry(EntryType::XHeader, "PaxHeaders/x", "", &pax_text(records))
    }

    /// Adds PAX records that concern the whole archive.
    pub fn global_pax(self, records: &[(&str, &[u8])]) -> Self {
        let text = pax_text(records);
        self.entry(EntryType::XGlobalHeader, "pax_global_header", "", &text)
    }

    /// Adds a name for the next entry in GNU's form.
    pub fn long_name(self, name: impl AsRef<[u8]>) -> Self {
        let text = [name.as_ref(), b"\0"].concat();
        self.entry(EntryType::GNULongName, "././@LongLink", "", &text)
    }

    /// Adds a link target for the next entry in GNU's form.
    pub fn long_link(self, target: impl AsRef<[u8]>) -> Self {
        let text = [target.as_ref(), b"\0"].concat();
        self.entry(EntryType::GNULongLink, "././@LongLink", "", &text)
    }

    /// The archive with its end.
    pub fn bytes(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn pax_text(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let rest = key.len() + value.len() + 3;
        let length =
            (rest..).find(|length| *length == rest + length.to_string().len()).unwrap_or(rest + 1);
        text.extend_from_slice(format!("{length} {key}=").as_bytes());
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}
