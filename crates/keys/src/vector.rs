//! Known answers, made with another library (Python's `cryptography`).

/// The private options of [`CIPHERTEXT`]: the key is 0 to 31, the nonce 240 to 255.
pub(crate) const PRIVATE: &str = concat!(
    r#"{"symkey":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","#,
    r#""digest":"sha256:8f000c16df7a5cb5b7c45d4707d7df411278b5d20e54ba9006263c12e55170c"#,
    r#"6","cipheroptions":{"nonce":"8PHy8/T19vf4+fr7/P3+/w=="}}"#,
);

/// The public options of [`CIPHERTEXT`].
pub(crate) const PUBLIC: &str = concat!(
    r#"{"cipher":"AES_256_CTR_HMAC_SHA256","#,
    r#""hmac":"/FYSeZgM86S8NnF228pp1RN/KEfTd6clJwKRdjCsFbQ=","cipheroptions":{}}"#,
);

pub(crate) const PLAIN: &[u8] = b"hello encrypted layer\n";
pub(crate) const CIPHERTEXT: &str = "fa65a1e14cb6e5a5391b9f2434570734a63e02258320";

/// The key that the packets are wrapped with: 64 to 95.
pub(crate) fn key_encryption_key() -> Vec<u8> {
    (0x40..0x60).collect()
}

pub(crate) const KID: &str = "kbs:///default/image-kek/1";

/// [`PRIVATE`] wrapped with AES-GCM.
pub(crate) const GCM: &str = concat!(
    r#"{"kid":"kbs:///default/image-kek/1","#,
    r#""wrapped_data":"1wp6fGr/9d8ru1t3RMMfSnh9qFNwXdhNXxWH/OrySL9Yrr9bE4aKz/qg+G9ZRWFt"#,
    r#"hlEJBB1+kJZJNH0Cm+S/xGabjT0nLm3ydDOlH4spf3isZDKDX1Ot2jhkPmOofEswE/Ne0o9kFPorvbUr"#,
    r#"kGi1j5YxlHwWijUNxlft+EFFEcpdJ0Fr1oZZXW8HNLQxoEvImEW/+XeCteq95yL/YW6drpdT8o5rvLJT"#,
    r#"yTM/9i73Lztd+99tyQsDpNtPL0WJiJfZq8CAX+/e27FwSyLMUrBMlp4=","#,
    r#""iv":"YGFiY2RlZmdoaWpr","wrap_type":"A256GCM"}"#,
);

/// [`PRIVATE`] wrapped in counter mode.
pub(crate) const CTR: &str = concat!(
    r#"{"kid":"kbs:///default/image-kek/1","#,
    r#""wrapped_data":"9SaXG283mCbDKkzKJwhUQcGVg47FeESy08JeG3wPxFhNBnTscjw9/3gbYMLhWV/o"#,
    r#"Mm315T34dfCC8b+7012g3GC3IbPFykPDCWjA3a8C0ji9LpZP8kTpMYt7T5JEJ1ANo7wjL5BLGO1zHiDe"#,
    r#"8BHLzI/Kynb4VGqanb/5TZqTuPFMAr4HIaC3QJFdLk4ecpkaNYyA2ZcLDMN0omAx0l1z6knkWbczBHgU"#,
    r#"ZqFoFVp8iGb5jHCGMTXYIdka16CrSiI95A==","iv":"cHFyc3R1dnd4eXp7fH1+fw==","#,
    r#""wrap_type":"A256CTR"}"#,
);
