//! What runs of `hack/bench pull` printed, read back out of their tables.

use anyhow::{Context as _, Result, ensure};

use crate::table::{BOUND, MEDIANS, PULLS};

/// What one run printed.
#[derive(Debug, Default)]
pub struct Figures {
    /// The pulls that worked.
    pub pulls: Vec<Pull>,
    /// Of which image on which file system; and the bound in seconds.
    pub bounds: Vec<(String, String, f64)>,
}

/// One tool's pulls of one image.
#[derive(Debug)]
pub struct Pull {
    pub image: String,
    pub tool: String,
    /// As in the heading of the table.
    pub place: String,
    pub wall_secs: f64,
    pub peak_mib: f64,
    /// The wall time as a multiple of the bound, if there is one.
    pub of_bound: Option<f64>,
}

/// Reads a page: each run in it begins with a line about its machine.
pub fn read(page: &str) -> Result<Vec<Figures>> {
    let mut runs = Vec::new();
    let (mut heading, mut columns) = ("", Vec::new());
    for line in page.lines() {
        if line.contains(MEDIANS) {
            runs.push(Figures::default());
        } else if line.starts_with("## ") {
            heading = line;
        }
        if !line.starts_with('|') {
            columns.clear();
        } else if columns.is_empty() {
            columns = cells(line);
        } else if !line.starts_with("|---") {
            let run = runs.last_mut().context("a table before any run")?;
            let row = Row(&columns, cells(line));
            run.take(heading, &row).with_context(|| line.to_owned())?;
        }
    }
    ensure!(!runs.is_empty(), "there is no run");
    Ok(runs)
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim().trim_matches('|');
    line.split('|').map(str::trim).collect()
}

impl Figures {
    fn take(&mut self, heading: &str, row: &Row<'_>) -> Result<()> {
        if let Some(place) = heading.strip_prefix(PULLS) {
            // A tool that failed has a reason there.
            if let Ok(wall_secs) = row.cell("wall s")?.parse() {
                self.pulls.push(Pull {
                    image: row.cell("image")?.to_owned(),
                    tool: row.cell("tool")?.to_owned(),
                    place: place.to_owned(),
                    wall_secs,
                    peak_mib: row.cell("peak MiB")?.parse()?,
                    // Over a line there is none.
                    of_bound: row.cell("of the bound").unwrap_or_default().parse().ok(),
                });
            }
        } else if let Some(fs) = heading.strip_prefix(BOUND) {
            let secs = row.cell("bound s")?.parse()?;
            let image = row.cell("image")?.to_owned();
            self.bounds.push((image, fs.to_owned(), secs));
        }
        Ok(())
    }
}

/// The names of the columns, and what one row has there.
struct Row<'p>(&'p [&'p str], Vec<&'p str>);

impl Row<'_> {
    /// Of two columns with one name the first.
    fn cell(&self, name: &str) -> Result<&str> {
        let column = self.0.iter().position(|column| *column == name);
        let cell = column.and_then(|column| self.1.get(column));
        cell.copied().with_context(|| format!("no column {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_failed_is_no_figure() {
        let page = "1 core. 3 rounds, medians.\n\n## Pull, verify, unpack on tmpfs, loopback\n\n\
            | image | tool | wall s | peak MiB | of the bound |\n|---|---|---|---|---|\n\
            | a gz | ours | 1.5 | 20.1 | - |\n| a gz | theirs | failed: no | | |\n\n\
            ## The bound on tmpfs\n\n| image | bound s | bound s |\n|---|---|---|\n\
            | a gz | 0.5 | 0.4 |\n\n## Encrypted layers on tmpfs\n\n| image |\n|---|\n| a gz |\n";
        let runs = read(page).unwrap();
        let [run] = &runs[..] else {
            panic!("{runs:?}");
        };
        assert_eq!(run.bounds, [("a gz".into(), "tmpfs".into(), 0.5)]);
        let [pull] = &run.pulls[..] else {
            panic!("{run:?}");
        };
        assert_eq!((pull.image.as_str(), pull.tool.as_str()), ("a gz", "ours"));
        assert_eq!(pull.place, "tmpfs, loopback");
        assert_eq!((pull.wall_secs, pull.peak_mib), (1.5, 20.1));
        assert_eq!(pull.of_bound, None);
        for (from, to) in [("medians", "means"), ("peak MiB", "peak"), ("0.5 |", "- |")] {
            assert!(read(&page.replace(from, to)).is_err(), "{to}");
        }
    }
}
