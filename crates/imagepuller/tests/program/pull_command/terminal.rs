//! What a person sees at a terminal.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use fault_registry::{Action, End, Script, What};

use super::Site;
use crate::support::wait_until;

/// A pull at a terminal of its own: `script`'s.
fn start(site: &Site) -> Child {
    let command = site.command(&site.image(), &[]);
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_str().unwrap())
        .collect();
    Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .args([&words.join(" "), "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What is left on the screen by bytes that a terminal was sent.
fn screen(sent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let (mut row, mut column) = (0, 0);
    let mut rest = sent.chars();
    while let Some(next) = rest.next() {
        match next {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                column = 0;
            }
            '\u{1b}' => {
                let mut sequence = String::new();
                // Up to its letter (ECMA-48, section 5.4).
                for next in rest.by_ref().skip_while(|next| *next == '[') {
                    sequence.push(next);
                    if next.is_ascii_alphabetic() {
                        break;
                    }
                }
                match sequence.as_str() {
                    "2K" => lines[row].clear(),
                    "1A" => row = row.saturating_sub(1),
                    // Colours and the cursor's look.
                    _ => {}
                }
            }
            letter => {
                let line = &mut lines[row];
                let before: String =
                    line.chars().chain(std::iter::repeat(' ')).take(column).collect();
                let after: String = line.chars().skip(column + 1).collect();
                *line = format!("{before}{letter}{after}");
                column += 1;
            }
        }
        while lines.len() <= row {
            lines.push(String::new());
        }
    }
    lines
}

/// Whether a line is a bar.
fn is_bar(line: &str) -> bool {
    line.contains(" left, ")
}

#[test]
fn privileged_the_bar_names_the_image_and_what_is_retried_and_goes_with_ctrl_c() {
    vm_harness::needs_root!();
    let busy = Action::Status { code: 503, headers: Vec::new(), body: String::new() };
    let stall = Action::cut(100, End::Stall);
    let script = Script::new().once(What::Layer(0), [busy]).always(What::AnyLayer, [stall]);
    let site = Site::start(script);
    let mut pull = start(&site);
    // Both layers stand still, the lower one after it was asked for again.
    let is_asked = |layer, times| site.asked_for(What::Layer(layer)) >= times;
    wait_until(|| "no layer is fetched", || is_asked(0, 2) && is_asked(1, 1));
    // Ctrl-C, as the terminal sends it to whoever is in front.
    let mut keyboard = pull.stdin.take().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    let output = pull.wait_with_output().unwrap();
    drop(keyboard);
    let sent = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{sent}");
    assert!(!site.output().exists());

    let name = format!("{}@{}", site.name(), &site.digest[7..15]);
    let mut frames = sent.split(['\r', '\n']);
    assert!(frames.any(|frame| frame.contains(&name) && is_bar(frame)), "{sent}");
    let left = screen(&sent);
    let busy = "answers 503";
    let again = |line: &&String| line.contains("asking again") && line.contains(busy);
    assert_eq!(left.iter().filter(again).count(), 1, "{left:#?}");
    assert!(!left.iter().any(|line| is_bar(line)), "{left:#?}");
    let last = left.iter().rfind(|line| !line.is_empty()).unwrap();
    assert!(last.ends_with("interrupted"), "{left:#?}");
}
