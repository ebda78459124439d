//! QEMU's `value,key=value,...` syntax, read only.

/// The value of `key` in a QEMU option list; the last one where it stands there twice, as in QEMU.
///
/// A first element without `=` is the value of `implied`. A doubled comma is a comma inside a
/// value.
///
/// The list comes from the runtime; whatever it holds, the answer is `None` or bytes of the list.
#[must_use]
pub fn value_of(list: &[u8], implied: &str, key: &str) -> Option<Vec<u8>> {
    let mut found = None;
    for (position, element) in elements(list).into_iter().enumerate() {
        let equals = element.iter().position(|byte| *byte == b'=');
        let (name, value) = match equals {
            Some(equals) => (&element[..equals], &element[equals + 1..]),
            None if position == 0 => (implied.as_bytes(), element.as_slice()),
            None => continue,
        };
        if name == key.as_bytes() {
            found = Some(value.to_vec());
        }
    }
    found
}

/// Splits at single commas and halves doubled ones.
fn elements(list: &[u8]) -> Vec<Vec<u8>> {
    let mut elements = vec![Vec::new()];
    let mut bytes = list.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte == b',' && bytes.next_if_eq(&b',').is_none() {
            elements.push(Vec::new());
        } else if let Some(element) = elements.last_mut() {
            element.push(byte);
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_qemu_reads_them() {
        let cases: [(&str, Option<&str>); 12] = [
            ("sandbox-1", Some("sandbox-1")),
            ("sandbox-1,debug-threads=on", Some("sandbox-1")),
            ("guest=sandbox-1,debug-threads=on", Some("sandbox-1")),
            ("debug-threads=on,guest=sandbox-1", Some("sandbox-1")),
            ("sandbox-a,,b,process=x", Some("sandbox-a,b")),
            ("sandbox-a,,,process=x", Some("sandbox-a,")),
            ("one,guest=two", Some("two")),
            ("guest=a=b", Some("a=b")),
            ("guest=", Some("")),
            ("", Some("")),
            ("debug-threads=on", None),
            ("debug-threads=on,sandbox-1", None),
        ];
        for (list, expected) in cases {
            let value = value_of(list.as_bytes(), "guest", "guest");
            assert_eq!(value.as_deref(), expected.map(str::as_bytes), "{list:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_pass() {
        let value = value_of(b"sandbox-\xff\xfe,debug-threads=on", "guest", "guest");
        assert_eq!(value.as_deref(), Some(b"sandbox-\xff\xfe".as_slice()));
    }
}
