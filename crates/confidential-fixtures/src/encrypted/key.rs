//! Key pairs by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use vm_harness::Scratch;
use vm_harness::process::{run_checked, run_with_input};

/// The kinds of keys that images are encrypted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA with 2048 bits.
    Rsa2048,
    /// An elliptic curve.
    P256,
    /// An elliptic curve.
    P384,
    /// An elliptic curve.
    P521,
}

impl KeyKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rsa2048, Self::P256, Self::P384, Self::P521];

    /// Arguments of `openssl genpkey`.
    const fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Rsa2048 => ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            Self::P256 => ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Self::P384 => ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            Self::P521 => ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"],
        }
    }
}

/// A key pair, in files of a scratch directory.
#[derive(Clone, Debug)]
pub struct Key {
    /// What it is.
    pub kind: KeyKind,
    scratch: Scratch,
    private: PathBuf,
    public: PathBuf,
}

impl Key {
    /// Makes a key pair; `name` tells its files from others.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn generate(scratch: &Scratch, name: &str, kind: KeyKind) -> Result<Self> {
        let private = scratch.path().join(format!("{name}.key"));
        let public = scratch.path().join(format!("{name}.pub"));
        let mut arguments = vec!["genpkey", "-quiet"];
        arguments.extend(kind.arguments());
        let made = run_checked(scratch, "openssl", arguments)?;
        fs::write(&private, made.stdout)?;
        let path = text(&private)?;
        let arguments = ["pkey", "-in", path, "-pubout", "-out", text(&public)?];
        run_checked(scratch, "openssl", arguments)?;
        Ok(Self { kind, scratch: scratch.clone(), private, public })
    }

    /// The private key as PEM, PKCS#8.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn pem(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.private)?)
    }

    /// The private key as DER, PKCS#8.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn der(&self) -> Result<Vec<u8>> {
        self.convert(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"])
    }

    /// The private key as PEM in the older container: PKCS#1 for RSA, SEC1 for elliptic curves.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn traditional_pem(&self) -> Result<String> {
        let converted = self.convert(&["pkey", "-traditional"])?;
        Ok(String::from_utf8(converted)?)
    }

    /// The private key as PEM, PKCS#8, encrypted with `password`.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn protected_pem(&self, password: &str) -> Result<String> {
        let file = self.scratch.write("key.password", password)?;
        let password = format!("file:{}", file.display());
        let arguments = ["pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout"];
        let converted = self.convert(&[&arguments[..], &[&password]].concat())?;
        Ok(String::from_utf8(converted)?)
    }

    /// The file with the private key, for a program that takes one.
    #[must_use]
    pub fn private(&self) -> &Path {
        &self.private
    }

    /// The file with the public key (PEM, `PUBLIC KEY`).
    #[must_use]
    pub fn public(&self) -> &Path {
        &self.public
    }

    /// Signs the SHA-256 of a message: RSA by PKCS#1 v1.5, elliptic curves in DER.
    ///
    /// # Errors
    ///
    /// `openssl`'s own.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let input = self.scratch.write("message", message)?;
        let arguments = ["dgst", "-sha256", "-sign", text(&self.private)?];
        let output = run_with_input(&self.scratch, "openssl", arguments, &input)?;
        Ok(output.stdout)
    }

    /// Opens what RSA-OAEP with SHA-1 closed.
    pub(super) fn open_oaep(&self, closed: &[u8]) -> Result<Vec<u8>> {
        let input = self.scratch.write("oaep.closed", closed)?;
        let arguments = ["pkeyutl", "-decrypt", "-inkey", text(&self.private)?];
        let oaep = ["-pkeyopt", "rsa_padding_mode:oaep"];
        let output =
            run_with_input(&self.scratch, "openssl", arguments.into_iter().chain(oaep), &input)?;
        Ok(output.stdout)
    }

    fn convert(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let input = ["-in", text(&self.private)?];
        let all = arguments.iter().copied().chain(input);
        Ok(run_checked(&self.scratch, "openssl", all)?.stdout)
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
