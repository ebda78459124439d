//! Where in a text a byte stands. Lines and columns count from 1.

/// The line and column of one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
}

impl Position {
    /// The position of the byte at `offset`; behind the text, that of its end.
    #[must_use]
    pub fn of(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n');
        Self {
            line: line_of(text, offset),
            column: before.len() - line_start.map_or(0, |line_feed| line_feed + 1) + 1,
        }
    }
}

/// The line of the byte at `offset`; behind the text, the last one.
#[must_use]
pub fn line_of(text: &[u8], offset: usize) -> usize {
    let before = &text[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// The lines of a text that is asked for many places.
#[derive(Clone, Debug)]
pub struct Lines {
    line_feeds: Vec<usize>,
}

impl Lines {
    /// Finds the lines of a text.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let line_feeds = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self { line_feeds: line_feeds.map(|(offset, _)| offset).collect() }
    }

    /// The same as [`line_of`].
    #[must_use]
    pub fn at(&self, offset: usize) -> usize {
        let before = |line_feed: &usize| *line_feed < offset;
        self.line_feeds.partition_point(before) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_ends_its_line() {
        let text = b"a\n\nb";
        for (offset, line, column) in
            [(0, 1, 1), (1, 1, 2), (2, 2, 1), (3, 3, 1), (4, 3, 2), (99, 3, 2)]
        {
            assert_eq!(Position::of(text, offset), Position { line, column });
            assert_eq!(line_of(text, offset), line, "offset {offset}");
            assert_eq!(Lines::of(text).at(offset), line, "offset {offset}");
        }
    }
}
