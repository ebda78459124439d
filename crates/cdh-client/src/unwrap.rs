//! Keys that never come to the puller: the confidential data hub unwraps a layer's options with
//! `keyprovider.KeyProviderService/UnWrapKey`.
//!
//! Request and answer are JSON of ocicrypt's key providers: the packet goes as it is in
//! `annotation`, in base64; the options come back as an array of numbers, one for each byte.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreign_text::json::{Duplicates, Kind, Limits, Value, read_object};
use imagepuller_api::message::{KeyProviderKeyWrapProtocolInput, KeyProviderKeyWrapProtocolOutput};
use protobuf::Message as _;
use zeroize::Zeroizing;

use crate::call::Method;
use crate::error::Fault;

/// The most bytes of a layer's options; real ones have 177.
const MAX_OPTIONS_BYTES: usize = 16 << 10;

/// The longest answer: four characters for each byte, and what stands around them.
const MAX_ANSWER_BYTES: usize = 4 * MAX_OPTIONS_BYTES + 1024;

/// Has the hub at `socket` open a packet.
pub async fn unwrap(
    socket: &Path,
    packet: &[u8],
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let method = Method {
        socket,
        service: "keyprovider.KeyProviderService",
        name: "UnWrapKey",
        limit,
        hint: |_| "the data hub did not unwrap the key; its own log says why",
    };
    let message = KeyProviderKeyWrapProtocolInput {
        KeyProviderKeyWrapProtocolInput: question(packet).into_bytes(),
        ..Default::default()
    };
    let payload = method.call(&message).await?;
    let answer = KeyProviderKeyWrapProtocolOutput::parse_from_bytes(&payload);
    let mut answer = answer.map_err(|_| NO_OPTIONS)?;
    let text = std::mem::take(&mut answer.KeyProviderKeyWrapProtocolOutput);
    options(&Zeroizing::new(text))
}

/// As ocicrypt writes it; the parameter is the name of the provider.
fn question(packet: &[u8]) -> String {
    let annotation = STANDARD.encode(packet);
    format!(
        "{{\"op\":\"keyunwrap\",\"keywrapparams\":{{\"ec\":null,\"optsdata\":null}},\
        \"keyunwrapparams\":{{\"dc\":{{\"Parameters\":{{\"attestation-agent\":\
        [\"YXR0ZXN0YXRpb24tYWdlbnQ=\"]}}}},\"annotation\":\"{annotation}\"}}}}"
    )
}

const NO_OPTIONS: Fault = Fault::Answer { rule: "holds no options of a layer" };

/// The options in an answer.
///
/// # Errors
///
/// [`Fault::TooLarge`] and [`Fault::Answer`].
pub fn options(text: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(Fault::TooLarge { limit_bytes: MAX_ANSWER_BYTES });
    }
    let answer = read_object(text, Limits::of_bytes(text.len()), Duplicates::Refused);
    let answer = answer.map_err(|_| NO_OPTIONS)?;
    let results = answer.last("keyunwrapresults").and_then(Value::object);
    let numbers = results.and_then(|results| results.last("optsdata"));
    let numbers = numbers.and_then(Value::array).ok_or(NO_OPTIONS)?;
    let mut options = Zeroizing::new(Vec::with_capacity(numbers.len()));
    for number in numbers {
        let Kind::Number(digits) = &number.kind else {
            return Err(NO_OPTIONS);
        };
        options.push(digits.parse().map_err(|_| NO_OPTIONS)?);
    }
    Ok(options)
}
