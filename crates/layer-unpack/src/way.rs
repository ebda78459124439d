//! The way to a directory, component by component, through symbolic links.

use std::io;

use rustix::io::Errno;

/// How many symbolic links one path may lead through: as many as Linux follows.
const MAX_LINKS: usize = 40;

/// The components of a path that are still to go.
#[derive(Debug)]
pub(crate) struct Way {
    /// The next one at the end.
    left: Vec<Vec<u8>>,
    links: usize,
}

impl Way {
    pub(crate) fn new(path: &[u8]) -> Self {
        let mut way = Self { left: Vec::new(), links: 0 };
        way.put(path);
        way
    }

    /// The next component, which is neither empty nor `.`.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        self.left.pop()
    }

    /// Goes on through a symbolic link's target; says whether that begins at the root.
    ///
    /// # Errors
    ///
    /// Where there are too many links, as for links that lead to each other.
    pub(crate) fn follow(&mut self, target: &[u8]) -> io::Result<bool> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        self.put(target);
        Ok(target.starts_with(b"/"))
    }

    fn put(&mut self, path: &[u8]) {
        let components = path.rsplit(|&byte| byte == b'/');
        let components = components.filter(|name| !matches!(*name, b"" | b"."));
        self.left.extend(components.map(<[u8]>::to_vec));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stands_for_its_target() {
        let mut way = Way::new(b"a//./b/c");
        assert_eq!(way.next().unwrap(), b"a");
        assert!(!way.follow(b"../x/y/").unwrap());
        let next: Vec<_> = std::iter::from_fn(|| way.next()).collect();
        assert_eq!(next, [&b".."[..], b"x", b"y", b"b", b"c"]);
        assert!(way.follow(b"/").unwrap() && way.next().is_none());
    }

    #[test]
    fn links_come_to_an_end() {
        let mut way = Way::new(b"a");
        let mut followed = 0;
        while way.next().is_some() && way.follow(b"a").is_ok() {
            followed += 1;
        }
        assert_eq!(followed, MAX_LINKS);
    }
}
