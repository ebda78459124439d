//! Rows counted, and compared with what is listed of them.

/// Why verdicts differ, and for which rows: parts of their description, all of which must be there.
pub(crate) struct Difference {
    pub(crate) why: &'static str,
    pub(crate) rows: &'static [&'static [&'static str]],
}

/// What is found out about all rows.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) same: usize,
    pub(crate) differing: usize,
    pub(crate) left_out: usize,
    problems: Vec<String>,
    used: std::collections::BTreeSet<(usize, usize)>,
}

impl Tally {
    /// Compares the verdicts of one row.
    pub(crate) fn row(&mut self, list: &[Difference], description: &str, theirs: &str, ours: &str) {
        let mut listed = Vec::new();
        for (at, difference) in list.iter().enumerate() {
            for (index, parts) in difference.rows.iter().enumerate() {
                if parts.iter().all(|part| description.contains(part)) {
                    listed.push((at, index));
                }
            }
        }
        let differs = class(theirs) != class(ours);
        self.used.extend(&listed);
        if differs == listed.is_empty() {
            let words = if differs {
                "differs"
            } else {
                "is listed and does not differ"
            };
            self.problems
                .push(format!("{words}: {description}\n    {theirs}\n    {ours}"));
        }
        self.same += usize::from(!differs);
        self.differing += usize::from(differs);
    }

    pub(crate) fn finish(self, list: &[Difference]) {
        for (at, difference) in list.iter().enumerate() {
            assert!(difference.why.len() > 20, "a reason is words");
            for (index, row) in difference.rows.iter().enumerate() {
                assert!(self.used.contains(&(at, index)), "{row:?} lists no row");
            }
        }
        println!(
            "{} the same, {} differ and are listed, {} left out",
            self.same, self.differing, self.left_out
        );
        let problems = self.problems.join("\n");
        assert!(problems.is_empty(), "{}:\n{problems}", self.problems.len());
    }
}

/// The first word; behind it may be the reason.
fn class(verdict: &str) -> &str {
    verdict.split(':').next().unwrap()
}
