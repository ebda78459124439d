//! Many descriptors closed at once.
#![expect(unsafe_code, reason = "descriptors are closed by their numbers")]

use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

/// Closes all of them; those with numbers in a row by one `close_range(2)`, which costs half of
/// what `close` does for each. Falls back to that where the kernel (before 5.9) or a sandbox
/// refuses.
pub fn close_all(descriptors: impl IntoIterator<Item = OwnedFd>) {
    let mut row: Option<(RawFd, RawFd)> = None;
    for descriptor in descriptors {
        let number = descriptor.into_raw_fd();
        row = match row {
            Some((first, last)) if last + 1 == number => Some((first, number)),
            other => {
                close_row(other);
                Some((number, number))
            }
        };
    }
    close_row(row);
}

/// Closes the descriptors of [`close_all`] from the first to the last.
fn close_row(row: Option<(RawFd, RawFd)>) {
    let Some((first, last)) = row else {
        return;
    };
    // SAFETY: each number in the row was taken out of an owned descriptor, and nobody else has it.
    let closed = unsafe {
        let [first, last] = [first, last].map(RawFd::cast_unsigned);
        libc::syscall(libc::SYS_close_range, first, last, 0)
    };
    if closed < 0 {
        for number in first..=last {
            // SAFETY: as above; none of them was closed.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, pipe};

    use super::*;

    #[test]
    fn all_of_them_are_closed_and_no_other() {
        let (mut readers, writers): (Vec<_>, Vec<_>) = (0..20).map(|_| pipe().unwrap()).unzip();
        let (kept, closed): (Vec<_>, Vec<_>) =
            writers.into_iter().enumerate().partition(|(place, _)| place % 7 == 3);
        let mut closed: Vec<OwnedFd> = closed.into_iter().map(|(_, end)| end.into()).collect();
        closed.reverse();
        close_all(closed);
        // A pipe ends when nobody can write to it any more.
        for (place, reader) in readers.iter_mut().enumerate() {
            if place % 7 != 3 {
                assert_eq!(reader.read(&mut [0]).unwrap(), 0, "{place}");
            }
        }
        for (place, mut end) in kept {
            std::io::Write::write_all(&mut end, b"x").unwrap();
            assert_eq!(readers[place].read(&mut [0]).unwrap(), 1, "{place}");
        }
        close_all([]);
    }
}
