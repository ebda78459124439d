use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::vector::{CTR, GCM, KID, PRIVATE, key_encryption_key};

#[test]
fn both_versions_open() {
    let second = GCM.replacen(
        '{',
        r#"{"version":"0.1.0","provider":"kbs","provider_settings":{"x":1},"annotations":{},"#,
        1,
    );
    let nothing = GCM.replacen('{', r#"{"version":null,"provider":null,"other":[1],"#, 1);
    for text in [GCM, &second, &nothing] {
        let packet = Packet::parse(text.as_bytes()).unwrap();
        assert_eq!(packet.kid(), KID);
        let opened = packet.open(&key_encryption_key()).unwrap();
        assert_eq!(&opened[..], PRIVATE.as_bytes());
    }
}

#[test]
fn what_is_not_a_packet_is_refused_by_name() {
    let long = format!("kbs:///{}", "a".repeat(MAX_KID_BYTES));
    let iv = r#""iv":"YGFiY2RlZmdoaWpr""#;
    let length = |expected, found| {
        InvalidPacket::Json(InvalidJson::Length { member: "iv", expected, found })
    };
    for (from, to, expected) in [
        ("A256GCM", "A128GCM", InvalidPacket::WrapType("\"A128GCM\"".to_owned())),
        ("A256GCM", "a256gcm", InvalidPacket::WrapType("\"a256gcm\"".to_owned())),
        ("\"wrap_type\"", "\"type\"", InvalidJson::Missing("wrap_type").into()),
        ("\"iv\"", "\"nonce\"", InvalidJson::Missing("iv").into()),
        (iv, r#""iv":"""#, length(12, 0)),
        (iv, r#""iv":"YGFiY2RlZmdoaWprAAAAAg==""#, length(12, 16)),
        ("A256GCM", "A256CTR", InvalidPacket::NotAuthenticated),
        ("\"kid\"", "\"key_id\"", InvalidJson::Missing("kid").into()),
        ("\"kid\":", "\"KID\":\"x\",\"kid\":", InvalidJson::Twice("kid").into()),
        (KID, "", InvalidPacket::Kid),
        (KID, "kbs:///a b", InvalidPacket::Kid),
        (KID, "kbs:///\\u001b[31m", InvalidPacket::Kid),
        (KID, "kbs:///é", InvalidPacket::Kid),
        (KID, &long, InvalidPacket::Kid),
        ("{", r#"{"version":"0.2.0","#, InvalidPacket::Version("\"0.2.0\"".to_owned())),
        ("{", r#"{"provider":"aliyun","#, InvalidPacket::Provider("\"aliyun\"".to_owned())),
        ("{", r#"{"provider":"KBS","#, InvalidPacket::Provider("\"KBS\"".to_owned())),
        ("{", r#"{"provider":1,"#, InvalidJson::Text("provider").into()),
        ("1wp6f", "-wp6f", InvalidJson::Base64("wrapped_data").into()),
    ] {
        assert!(GCM.contains(from), "{from}");
        let text = GCM.replacen(from, to, 1);
        let error = Packet::parse(text.as_bytes()).err();
        assert_eq!(error, Some(expected), "{text}");
    }
    let at_limit = GCM.replacen("default/image-kek/1", &"a".repeat(MAX_KID_BYTES - 7), 1);
    Packet::parse(at_limit.as_bytes()).unwrap();
}

#[test]
fn what_is_wrapped_has_a_size() {
    let wrapping = |bytes: usize| {
        let data = STANDARD.encode(vec![7; bytes]);
        let text = format!(
            r#"{{"kid":"k","wrapped_data":"{data}","iv":"YGFiY2RlZmdoaWpr","wrap_type":"A256GCM"}}"#
        );
        Packet::parse(text.as_bytes()).err()
    };
    let limit = MAX_OPTIONS_BYTES + TAG_BYTES;
    assert_eq!(wrapping(limit), None);
    let over = limit + 1;
    assert_eq!(wrapping(over), Some(InvalidPacket::WrappedBytes(over)));
    let over = MAX_PACKET_BYTES;
    assert!(matches!(wrapping(over), Some(InvalidPacket::Json(InvalidJson::TooLong { .. }))));
}

#[test]
fn only_the_right_key_opens() {
    let packet = Packet::parse(GCM.as_bytes()).unwrap();
    let key = key_encryption_key();
    for length in [0, 16, 31, 33, 44] {
        let key = [&key[..], &key].concat();
        assert_eq!(packet.open(&key[..length]), Err(Unopened::KeyBytes));
    }
    for bit in 0..256 {
        let mut wrong = key.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(packet.open(&wrong), Err(Unopened::Key));
    }
    for at in 0..packet.wrapped.len() {
        let mut changed = packet.clone();
        changed.wrapped[at] ^= 1;
        assert_eq!(changed.open(&key), Err(Unopened::Key), "byte {at}");
    }
    for bytes in 0..TAG_BYTES {
        let mut cut = packet.clone();
        cut.wrapped.truncate(bytes);
        assert_eq!(cut.open(&key), Err(Unopened::Key));
    }
}

/// What somebody without the key can make of a packet that was wrapped with GCM: the same options,
/// to be changed bit by bit.
#[test]
fn counter_mode_is_refused_by_name() {
    let packet = Packet::parse(GCM.as_bytes()).unwrap();
    let without_tag = &packet.wrapped[..packet.wrapped.len() - TAG_BYTES];
    let counter = [&packet.iv[..], &[0, 0, 0, 2]].concat();
    let key = UnboundCipherKey::new(&AES_256, &key_encryption_key()).unwrap();
    let mut opened = without_tag.to_vec();
    DecryptingKey::ctr(key)
        .unwrap()
        .decrypt(
            &mut opened,
            DecryptionContext::Iv128(<[u8; 16]>::try_from(&counter[..]).unwrap().into()),
        )
        .unwrap();
    assert_eq!(opened, PRIVATE.as_bytes());
    let relabelled = format!(
        r#"{{"kid":"{KID}","wrapped_data":"{}","iv":"{}","wrap_type":"A256CTR"}}"#,
        STANDARD.encode(without_tag),
        STANDARD.encode(&counter)
    );
    let second = relabelled.replacen('{', r#"{"version":"0.1.0","provider":"kbs","#, 1);
    for text in [CTR, &relabelled, &second] {
        let error = Packet::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error, InvalidPacket::NotAuthenticated);
        let text = error.to_string();
        assert!(text.contains("\"A256CTR\", which is refused"), "{text}");
        assert!(text.contains("wrap the key with \"A256GCM\""), "{text}");
    }
}

#[test]
fn debug_shows_the_name_and_no_data() {
    let shown = format!("{:?}", Packet::parse(GCM.as_bytes()).unwrap());
    assert_eq!(shown, format!("Packet {{ kid: {KID:?}, .. }}"));
}
