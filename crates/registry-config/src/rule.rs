//! The rules of the document in the words in which their breach is reported.

use foreign_text::toml::WrongType;
use thiserror::Error;

use crate::limits::*;
use crate::{InvalidName, InvalidResourceSource, InvalidResourceUri};

/// A rule of the document, worded for whoever broke it. No variant carries a value of the document,
/// but that of a resource URI with two slashes shows the one with three.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Rule {
    /// The text is longer than [`MAX_DOCUMENT_BYTES`].
    #[error("a document has at most {MAX_DOCUMENT_BYTES} bytes")]
    DocumentTooLong,
    /// The text has more than [`MAX_ELEMENTS`].
    #[error("a document has at most {MAX_ELEMENTS} keys, values and brackets")]
    TooManyElements,
    /// The text is not UTF-8.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// The text is UTF-16 by its byte order mark.
    #[error("UTF-16 text: save it as UTF-8")]
    Utf16,
    /// The text is not TOML; what the parser says about it.
    #[error("not TOML: {0}")]
    Syntax(String),
    /// A key that means nothing here.
    #[error("unknown key{}", did_you_mean(*suggestion))]
    UnknownKey {
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A table where an entry has none.
    #[error(
        "unknown table; a registry name with a dot in it must be quoted, as in \
        [registries.\"registry.corp\"]"
    )]
    UnquotedName,
    /// A key in an entry for repositories that is not about credentials.
    #[error(
        "belongs in the entry of the host: an entry for some of its repositories holds credentials \
        only"
    )]
    KeyOfHost,
    /// A value of another type.
    #[error(transparent)]
    WrongType(#[from] WrongType),
    /// More variables than [`MAX_VARIABLES`].
    #[error("\"extra-env\" has at most {MAX_VARIABLES} variables")]
    TooManyVariables,
    /// More entries than [`MAX_REGISTRIES`].
    #[error("a document has at most {MAX_REGISTRIES} registries")]
    TooManyRegistries,
    /// A name that names no registry.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A name that means the same hosts as an earlier one.
    #[error("names the same hosts as {first} on line {line}; write one entry")]
    DuplicateName {
        /// The earlier key.
        first: String,
        /// Its line.
        line: usize,
    },
    /// `[resources]` in a document of the host, which would choose who learns what the guest asks
    /// for.
    #[error(
        "belongs in the measured document, imagepuller.toml in the initdata: the host does not \
        choose whom the guest asks for secrets"
    )]
    ResourcesOfHost,
    /// Which image a name means, in a document of the host, which hands the names on.
    #[error(
        "belongs in the measured document, imagepuller.toml in the initdata: the host does not say \
        which images run"
    )]
    PinsOfHost,
    /// `only-pins` in the table of pins.
    #[error("stands at the top of the document, before [pins] and every other table")]
    OnlyPinsInside,
    /// More pins than [`MAX_PINS`].
    #[error("there are at most {MAX_PINS} pins")]
    TooManyPins,
    /// No digest, or more than [`MAX_PIN_DIGESTS`].
    #[error("a list has 1 to {MAX_PIN_DIGESTS} digests")]
    PinDigests,
    /// A pin without a meaning; what the grammar of images says.
    #[error("{0}")]
    Pin(String),
    /// Which signatures images need, in a document of the host.
    #[error(
        "belongs in the measured document, imagepuller.toml in the initdata: the host does not say \
        which signatures images need"
    )]
    ImagePolicyOfHost,
    /// `[image-policy]` without a policy.
    #[error("has no policy; write one of \"text\", \"file\" and \"uri\"")]
    NoPolicySource,
    /// More than one of `text`, `file` and `uri`.
    #[error("is a second place of the policy; write one of \"text\", \"file\" and \"uri\"")]
    SecondPolicySource,
    /// A policy without a letter.
    #[error(
        "is empty; write a policy as containers-policy.json(5) says, or leave [image-policy] out"
    )]
    EmptyPolicy,
    /// A file that is no key of `[data]`; with the reason.
    #[error("{0}; write the key of the file in [data] of the initdata, such as \"policy.json\"")]
    PolicyFile(String),
    /// More scopes than [`MAX_ALLOW_TAGS`].
    #[error("there are at most {MAX_ALLOW_TAGS} scopes")]
    TooManyAllowTags,
    /// More digests than [`MAX_REFUSED`].
    #[error("there are at most {MAX_REFUSED} digests")]
    TooManyRefused,
    /// A part of `[image-policy]` without a meaning; what the grammar of policies says.
    #[error("{0}")]
    ImagePolicy(String),
    /// That nobody's credentials are wanted, in a document of the host, which has them.
    #[error(
        "belongs in the measured document, imagepuller.toml in the initdata: the host that wants \
        none of its own credentials used leaves them out"
    )]
    AnonymousOfHost,
    /// Credentials where none are wanted.
    #[error("stands beside credentials, and wants none; remove one of the two")]
    AnonymousBesideCredentials,
    /// A reason of the node in the owner's document.
    #[error("belongs in the node's document: it says why the node has no other")]
    NodeErrorOfOwner,
    /// Anything beside a reason of the node.
    #[error("stands beside \"node-error\", which is alone in its document; remove one of the two")]
    BesideNodeError,
    /// A reason without a word.
    #[error("must not be empty: every pull is answered with it")]
    EmptyNodeError,
    /// A reason longer than [`MAX_NODE_ERROR_BYTES`].
    #[error("has at most {MAX_NODE_ERROR_BYTES} bytes")]
    NodeErrorTooLong,
    /// A source that is none.
    #[error(transparent)]
    ResourceSource(#[from] InvalidResourceSource),
    /// A file, which unwraps nothing.
    #[error("keys are unwrapped by a CDH, and \"source\" is a file; name a CDH, or leave it out")]
    UnwrapByFile,
    /// Roots that are somewhere else.
    #[error(
        "is a path, but the guest has no files of the node: paste the certificates of that file \
        here, from \"-----BEGIN CERTIFICATE-----\" on; `kata-configdev new --ca FILE` does it; \
        \"none\" trusts nobody"
    )]
    RootsByPath,
    /// A reference that is no resource URI.
    #[error(transparent)]
    ResourceUri(#[from] InvalidResourceUri),
    /// A plugin of the broker in a document of the host, which would say what the plugin makes up.
    #[error(
        "names a plugin of the key broker, which only the measured document may; the host's names \
        resources, \"kbs:///repository/type/tag\""
    )]
    PluginOfHost,
    /// `credentials-uri` and credentials in one entry.
    #[error("stands beside credentials in the same entry; write one or the other")]
    ReferenceBesideCredentials,
    /// A text that begins as a sealed secret does.
    #[error(
        "begins with \"sealed.\", and sealed secrets are not read: name the resource in \
        \"credentials-uri\"; write a user name and a password that begins so as \"auth\""
    )]
    Sealed,
    /// `ca-certs-uri` and `ca-certs` in one entry.
    #[error("stands beside \"ca-certs\"; write one or the other")]
    RootsTwice,
    /// More keys than [`MAX_DECRYPTION_KEYS`].
    #[error("there are at most {MAX_DECRYPTION_KEYS} decryption keys")]
    TooManyDecryptionKeys,
    /// More tables than [`MAX_DECRYPTION_TABLES`].
    #[error("there are at most {MAX_DECRYPTION_TABLES} tables of decryption keys")]
    TooManyDecryptionTables,
    /// Keys of a suffix.
    #[error(
        "names no single host: keys are for the images of a host, or of some of its repositories, \
        as in [decryption-keys.\"registry.corp/team\"], or for every image"
    )]
    DecryptionKeysOfManyHosts,
    /// Nothing where a key should be.
    #[error("has no key: it is \"base64(key)\" or \"base64(key):base64(password)\"")]
    EmptyDecryptionKey,
    /// A key or password that is not base64.
    #[error(
        "neither base64 of a key, with a colon and base64 of its password if it has one, \
        nor \"kbs:///repository/type/tag\"; a list has one key in each string"
    )]
    DecryptionKeyNotBase64,
    /// A key longer than [`MAX_DECRYPTION_KEY_BYTES`].
    #[error("a decryption key has at most {MAX_DECRYPTION_KEY_BYTES} bytes")]
    DecryptionKeyTooLong,
    /// A colon with nothing behind it.
    #[error("has no password behind its colon; leave the colon out for a key without one")]
    EmptyKeyPassword,
    /// A password longer than [`MAX_KEY_PASSWORD_BYTES`].
    #[error("the password of a key has at most {MAX_KEY_PASSWORD_BYTES} bytes")]
    KeyPasswordTooLong,
    /// A credential without a character.
    #[error("must not be empty; leave the key out for an anonymous pull")]
    EmptyCredential,
    /// A credential longer than [`MAX_CREDENTIAL_BYTES`].
    #[error("has at most {MAX_CREDENTIAL_BYTES} bytes")]
    CredentialTooLong,
    /// A credential that could end a header line, or begin another.
    #[error("must not contain control characters such as line ends")]
    ControlCharacter,
    /// A password with the line end of an editor behind it.
    #[error("ends with a line end, which is no part of a password of one line; remove it")]
    LineEndOfPassword,
    /// A control character behind base64, where it usually comes from `echo`.
    #[error(
        "decodes to text with a control character; if it was made with `echo`, use `printf %s`"
    )]
    EncodedControlCharacter,
    /// A user name that would end at its colon.
    #[error("a user name must not contain a colon")]
    ColonInUsername,
    /// `auth` that is not base64.
    #[error("not valid base64 of \"user:password\"")]
    NotBase64,
    /// `auth` of bytes that are not text.
    #[error("decodes to something that is not UTF-8 text")]
    EncodedNotUtf8,
    /// `auth` without a colon.
    #[error("decodes to text without the colon between user name and password")]
    NoColon,
    /// `auth` of a lone colon.
    #[error(
        "decodes to an empty user name and an empty password; leave the key out for an anonymous \
        pull"
    )]
    EmptyPair,
    /// `auth` beside another user name or password.
    #[error("disagrees with \"username\" and \"password\"; write one or the other")]
    PairsDisagree,
    /// Half a pair.
    #[error("has no \"password\" beside it")]
    UsernameWithoutPassword,
    /// Half a pair.
    #[error("has no \"username\" beside it")]
    PasswordWithoutUsername,
    /// A bearer token with a character that a header cannot carry.
    #[error("a bearer token consists of visible ASCII characters, without spaces")]
    TokenCharacter,
    /// A PEM boundary line that is none.
    #[error(
        "has a malformed line \"-----BEGIN\" or \"-----END\": five hyphens at each end, alone on \
        its line, not indented"
    )]
    PemBoundary,
    /// A block without its end, or an end without its beginning.
    #[error(
        "block {block} is incomplete: each \"-----BEGIN CERTIFICATE-----\" needs its \"-----END \
        CERTIFICATE-----\""
    )]
    PemIncomplete {
        /// Which block, from 1.
        block: usize,
    },
    /// A key, a request or another thing that is no certificate.
    #[error(
        "block {block} is not a CERTIFICATE; only certificates belong here, never private keys"
    )]
    PemKind {
        /// Which block, from 1.
        block: usize,
    },
    /// A block that is not base64.
    #[error("block {block} is not valid base64")]
    PemBase64 {
        /// Which block, from 1.
        block: usize,
    },
    /// A block that does not have the outer shape of an X.509 certificate.
    #[error("block {block} does not hold exactly one X.509 certificate")]
    PemShape {
        /// Which block, from 1.
        block: usize,
    },
    /// More certificates than [`MAX_CERTIFICATES`].
    #[error("an entry has at most {MAX_CERTIFICATES} certificates")]
    TooManyCertificates,
    /// A mirror that is not an address.
    #[error("not a URL such as \"https://mirror.corp/prefix\"")]
    MirrorUrl,
    /// A mirror's URL longer than [`MAX_MIRROR_BYTES`].
    #[error("a mirror's URL has at most {MAX_MIRROR_BYTES} bytes")]
    MirrorTooLong,
    /// A mirror by another protocol.
    #[error("a mirror is asked over \"https://\" or \"http://\"")]
    MirrorScheme,
    /// A mirror with credentials in its address.
    #[error(
        "a mirror's URL has no user name or password; the entry's credentials are used, or those \
        of an entry for the mirror's host"
    )]
    MirrorUserInfo,
    /// A mirror with a query or fragment.
    #[error("a mirror's URL ends with its path, without \"?\" or \"#\"")]
    MirrorQuery,
    /// A mirror over plain HTTP, which nothing allows.
    #[error(
        "plain HTTP needs \"plain-http = true\" here or an entry for the mirror's own host \
        with \"plain-http\" or \"insecure-skip-verify\"; where there are no credentials, \
        \"insecure-skip-verify\" here is enough"
    )]
    MirrorPlainHttp,
    /// A mirror whose own entry refers to what is not fetched for mirrors.
    #[error(
        "the mirror's own entry has {key:?}, which is fetched only for the registry that an image \
        names; write \"credentials-uri\" and \"ca-certs-uri\" into the measured entry of the \
        registry, and the mirror's credentials into the same docker configuration under its own \
        name"
    )]
    MirrorReference {
        /// `credentials-uri` or `ca-certs-uri`.
        key: &'static str,
    },
    /// More further accounts than [`MAX_ALSO`].
    #[error("an entry has at most {MAX_ALSO} further accounts")]
    TooManyAccounts,
    /// `also` of nobody.
    #[error("has no credentials beside it: write the first account into the entry itself")]
    AlsoAlone,
    /// `also` beside a reference.
    #[error("stands beside \"credentials-uri\": what is fetched is the only account of a pull")]
    AlsoBesideReference,
    /// A reference in `also`.
    #[error(
        "a further account has no \"credentials-uri\": what is fetched is the only account of a \
        pull"
    )]
    ReferenceInAlso,
    /// An account without credentials.
    #[error("has no credentials; a pull never becomes anonymous after a refusal")]
    EmptyAlso,
    /// `mirror` and `mirrors` in one entry.
    #[error("stands beside \"mirror\"; write one list, or one mirror")]
    MirrorTwice,
    /// More mirrors than [`MAX_MIRRORS`], or than [`MAX_REPOSITORY_MIRRORS`] for one repository.
    #[error(
        "an entry has at most {MAX_MIRRORS} mirrors, and {MAX_REPOSITORY_MIRRORS} for one \
        repository"
    )]
    TooManyMirrors,
    /// A mirror's table without an address.
    #[error(
        "has no \"url\"; without one an item has \"prefix\" and \"fallback = false\", and nobody \
        is asked for those repositories"
    )]
    MirrorWithoutUrl,
    /// A prefix or a name of a mirror that no repository has.
    #[error(
        "consists of whole segments of repository names, as in \"team/app\": lower-case letters, \
        digits and \"-\", \"_\" or \".\" between them, at most {MAX_REPOSITORY_BYTES} bytes, \
        without \"/\" at the ends; only a \"name\" beside a \"prefix\" may be empty"
    )]
    MirrorRepositories,
    /// Addresses that are none, or too many.
    #[error(
        "is a list of 1 to {MAX_ADDRESSES} addresses such as \"192.0.2.1\" and \"2001:db8::1\", \
        without ports"
    )]
    Addresses,
    /// Addresses of many hosts, or of an address.
    #[error("says where one host is, and stands in the entry of that host's name alone")]
    AddressesOfManyHosts,
    /// Half a client certificate.
    #[error("\"client-cert\" and \"client-key\" stand together; one of them is missing")]
    HalfClientIdentity,
    /// A client certificate without a certificate.
    #[error("has no PEM certificate to show")]
    NoClientCertificate,
    /// The private key of a client certificate that is none.
    #[error(
        "is not one PEM private key without a password (PKCS#8, PKCS#1 or SEC1); `openssl pkcs8 \
        -topk8 -nocrypt` makes one"
    )]
    ClientKey,
    /// `credentials-optional` of no reference.
    #[error("has no \"credentials-uri\" beside it")]
    OptionalWithoutReference,
    /// `web-roots` of no roots.
    #[error("has no \"ca-certs\" with a certificate beside it; without those the web's hold")]
    WebRootsAlone,
    /// `mirror-fallback` of no mirror.
    #[error("has no \"mirror\" or \"mirrors\" beside it")]
    FallbackWithoutMirror,
    /// A proxy that is not an address.
    #[error(
        "not a URL such as \"http://proxy.corp:3128\": scheme, optional user name and password, \
        host, optional port"
    )]
    ProxyUrl,
    /// A proxy by another protocol.
    #[error(
        "a proxy is reached over \"http://\", \"https://\" or \"socks5://\"; other kinds are not \
        supported"
    )]
    ProxyScheme,
    /// A proxy's user name or password with a character that a URL does not have there.
    #[error(
        "the user name and password of a proxy have everything but letters, digits \
        and \"-._~!$&'()*+,;=\" percent-encoded, and no control characters"
    )]
    ProxyUserInfo,
    /// `NO_PROXY` longer than [`MAX_NO_PROXY_BYTES`].
    #[error("has at most {MAX_NO_PROXY_BYTES} bytes")]
    NoProxyTooLong,
    /// The same variable twice.
    #[error("disagrees with {other}, which is the same variable; write one of them")]
    VariablesDisagree {
        /// The other spelling.
        other: &'static str,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    let ask = |known| format!("; did you mean \"{known}\"?");
    suggestion.map(ask).unwrap_or_default()
}
