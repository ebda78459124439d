//! Rows counted, and compared with what is listed of them.

use std::collections::BTreeSet;

/// Why verdicts differ, and for which rows.
pub(crate) struct Difference<R> {
    pub(crate) why: &'static str,
    /// Whether this is the reason for a row that differs, be it recorded here or not.
    pub(crate) holds: fn(&R) -> bool,
    /// The names of the recorded rows that differ for this reason.
    pub(crate) rows: &'static [&'static str],
}

/// A verdict of a real program, and ours.
pub(crate) trait Judged {
    /// A short name, such as its number.
    fn name(&self) -> String;
    /// All that a person needs to look into it.
    fn description(&self) -> String;
    /// The first word is the verdict.
    fn theirs(&self) -> &str;
    /// The first word is the verdict; behind it may be the reason.
    fn ours(&self) -> &str;
    /// Whether it is in this repository, and so in the lists.
    fn is_recorded(&self) -> bool;
}

/// What is found out about all rows.
pub(crate) struct Tally<R: 'static> {
    list: &'static [Difference<R>],
    same: usize,
    differing: usize,
    problems: Vec<String>,
    /// The names of the recorded rows that differ, for each reason.
    found: Vec<BTreeSet<String>>,
}

impl<R: Judged> Tally<R> {
    pub(crate) fn new(list: &'static [Difference<R>]) -> Self {
        Self {
            list,
            same: 0,
            differing: 0,
            problems: Vec::new(),
            found: vec![BTreeSet::new(); list.len()],
        }
    }

    /// Compares the verdicts of one row. The first reason that holds is the one.
    pub(crate) fn row(&mut self, row: &R) {
        if class(row.theirs()) == class(row.ours()) {
            self.same += 1;
            return;
        }
        self.differing += 1;
        let reason = self.list.iter().position(|one| (one.holds)(row));
        match reason.and_then(|at| self.found.get_mut(at)) {
            None => {
                let (name, what) = (row.name(), row.description());
                let (theirs, ours) = (row.theirs(), row.ours());
                self.problems.push(format!(
                    "{name} differs for no reason: {what}\n    {theirs}\n    {ours}"
                ));
            }
            Some(found) if row.is_recorded() => _ = found.insert(row.name()),
            Some(_) => {}
        }
    }

    /// Prints the numbers, once every difference has its reason and the lists are true.
    pub(crate) fn finish(mut self, rows: usize) {
        for (difference, found) in self.list.iter().zip(&self.found) {
            assert!(difference.why.len() > 20, "a reason is words");
            let listed: BTreeSet<_> = difference.rows.iter().map(|&row| row.to_owned()).collect();
            if listed != *found {
                let missing: Vec<_> = found.difference(&listed).collect();
                let wrong: Vec<_> = listed.difference(found).collect();
                self.problems.push(format!(
                    "{}: not listed {missing:?}, listed for nothing {wrong:?}",
                    difference.why
                ));
            }
        }
        println!("{} the same, {} differ and are listed", self.same, self.differing);
        let problems = self.problems.join("\n");
        assert!(problems.is_empty(), "{}:\n{problems}", self.problems.len());
        assert_eq!(self.same + self.differing, rows, "no row is left out");
    }
}

fn class(verdict: &str) -> &str {
    verdict.split(':').next().unwrap()
}
