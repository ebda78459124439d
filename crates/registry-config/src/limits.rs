//! The limits of a document. Host and guest refuse what exceeds one, so each is part of the format.

/// The longest user name, password or token: more than any registry takes in a request header, and
/// above the longest identity tokens of cloud registries.
pub const MAX_CREDENTIAL_BYTES: usize = 16 << 10;

/// The most further accounts of an entry; each may be asked about by a request of its own. The
/// kubelet tries as many as a pod has pull secrets, which are hardly ever more.
pub const MAX_ALSO: usize = 8;

/// The most keys; each may be tried for each recipient of each layer.
pub const MAX_DECRYPTION_KEYS: usize = 64;

/// The most tables of keys for some repositories; those of one image are at most a few.
pub const MAX_DECRYPTION_TABLES: usize = 256;

/// The longest key, decoded: well above an RSA key of 8192 bits in any container.
pub const MAX_DECRYPTION_KEY_BYTES: usize = 64 << 10;

/// The longest password of a key, decoded.
pub const MAX_KEY_PASSWORD_BYTES: usize = 4 << 10;

/// The longest document, as plain text. Larger than any real one by far. Part of the format: host
/// and guest refuse what is longer.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// The most dots, equal signs, commas and opening brackets outside of strings and comments: more
/// than [`MAX_REGISTRIES`](crate::MAX_REGISTRIES) entries with every key need.
///
/// Each may make the TOML parser build a table, about a kilobyte for two bytes of text. Without
/// this limit a hostile document of the greatest length takes over half a gigabyte; with it, less
/// than [`MAX_DOCUMENT_BYTES`] times 64.
pub const MAX_ELEMENTS: usize = 32 << 10;

/// The longest list of exceptions; each of its items is compared with each host of a pull.
pub const MAX_NO_PROXY_BYTES: usize = 16 << 10;

/// The most variables. All but six have no effect and give a warning each.
pub const MAX_VARIABLES: usize = 256;

/// The longest name that DNS can resolve, without the trailing dot (RFC 1035, section 2.3.4). Part
/// of the document format.
pub const MAX_HOST_BYTES: usize = 253;

/// The longest reason of a node that has no document: a pod's events hold about a kilobyte. Part of
/// the format.
pub const MAX_NODE_ERROR_BYTES: usize = 1024;

/// The most addresses of a host; each may be waited for before the next one is tried.
pub const MAX_ADDRESSES: usize = 8;

/// The longest URL of a mirror; its path is put in front of every path that is requested.
pub const MAX_MIRROR_BYTES: usize = 2048;

/// The most mirrors of an entry: a disconnected OpenShift has one for each namespace of a registry,
/// some dozens.
pub const MAX_MIRRORS: usize = 256;

/// The most mirrors of one repository: each may be waited for before the next one is asked.
pub const MAX_REPOSITORY_MIRRORS: usize = 8;

/// How many problems of one document are kept; a hostile document of the greatest size has half a
/// million.
pub const MAX_PROBLEMS: usize = 1000;

/// The most entries of a document; an entry costs memory in the guest whatever its length in the
/// document is.
pub const MAX_REGISTRIES: usize = 1024;

/// The longest source; what Linux opens has at most as many bytes.
pub const MAX_RESOURCE_SOURCE_BYTES: usize = 4096;

/// The longest resource URI; it becomes a path of an HTTP request, and three names of a hundred
/// letters fit three times.
pub const MAX_RESOURCE_URI_BYTES: usize = 1024;

/// The longest name of a repository, or of the beginning of one, as image references have it.
pub const MAX_REPOSITORY_BYTES: usize = 255;

/// The most certificates of one entry: three times what the web's root programs have.
pub const MAX_CERTIFICATES: usize = 512;

/// The most pins; each is a digest of 71 bytes and a name.
pub const MAX_PINS: usize = 4096;

/// The most digests of one pin: versions of one image that are in use at a time.
pub const MAX_PIN_DIGESTS: usize = 64;

/// The most scopes of images whose tags may be resolved; each is read once for a pull.
pub const MAX_ALLOW_TAGS: usize = 256;

/// The most digests that do not run: versions of images in which a hole was found.
pub const MAX_REFUSED: usize = 4096;
