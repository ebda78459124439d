//! Base64 as people and programs write it, decoded into memory that is zeroed.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

/// The standard alphabet; padding may be left out, as readers of docker's configuration files
/// differ about it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64 with or without padding; `None` if it is not base64, line ends and spaces
/// included.
pub fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    // Long enough for any input, so that the buffer never moves.
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(text.len())]);
    let length = BASE64.decode_slice(text, &mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}
