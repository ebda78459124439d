//! What a hostile text costs its reader. One test in a file of its own: the peak is the whole
//! process's.

use registry_config::{Document, MAX_DOCUMENT_BYTES};

/// The story: 79 levels of dotted keys, repeated up to the greatest length, took 588 MB, for each
/// pull that reads the document and from a text that the host writes.
#[test]
fn no_text_takes_more_than_64_mib() {
    let fill = |unit: &dyn Fn(usize) -> String, start: &str| {
        let mut text = String::from(start);
        for number in 0.. {
            let next = unit(number);
            if text.len() + next.len() > MAX_DOCUMENT_BYTES {
                return text;
            }
            text.push_str(&next);
        }
        text
    };
    let hostile = [
        fill(&|n| format!("{n:x}{}=1\n", ".a".repeat(78)), ""),
        fill(&|n| format!("{n:x}=1\n"), ""),
        fill(&|n| format!("[{n:x}]\n"), ""),
        fill(&|_| "[[a]]\n".to_owned(), ""),
        fill(&|_| "{a=1},".to_owned(), "x=["),
        fill(&|_| "1,".to_owned(), "x=["),
        fill(&|_| "\\u0041".to_owned(), "x=\""),
        fill(&|_| "\n".to_owned(), ""),
        // Just within the limit on elements, so that it really is parsed.
        (0..400).map(|n| format!("{n:x}{}=1\n", ".a".repeat(78))).collect(),
        // Each item has a place with the name of its entry.
        format!("[registries.\"{}\"]\nalso=[{}]", "\\u0001".repeat(300), "{},".repeat(16_000)),
        // The longest names of the most mirrors.
        (0..6)
            .map(|n| {
                let part = "a".repeat(250);
                let mirror = |n| format!("{{url='https://m',prefix='{n}/{part}',name='{part}'}},");
                let mirrors: String = (0..256).map(mirror).collect();
                format!("[registries.r{n}]\nmirrors=[{mirrors}]\n")
            })
            .collect(),
    ];
    for text in &hostile {
        let parsed = Document::parse(text.as_bytes());
        assert!(parsed.is_ok() || !text.contains("mirrors"));
    }
    let texts_kib = hostile.iter().map(String::len).sum::<usize>() / 1024;
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak_kib: usize = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().trim_end_matches(" kB").parse().ok())
        .unwrap();
    // The process itself takes a few MiB.
    assert!(peak_kib < texts_kib + 64 * 1024 + 8 * 1024, "{peak_kib} KiB");
}
