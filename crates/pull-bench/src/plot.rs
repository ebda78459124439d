//! Pictures of records: how a pull's time grows with the delay, how far it is from the bound, and
//! how much memory it takes.

mod chart;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::options::FileSystem;
use crate::rounds::{Place, Record, Run};
use crate::table::middle;
use crate::way::Way;
use chart::{Bars, Group, Lines, Series};

/// Where the bound holds: nothing is waited for.
const BESIDE: Place = Place {
    fs: FileSystem::Tmpfs,
    way: Way::LOOPBACK,
};

/// Below, a pull costs what it costs without any layer, and the ratio says nothing.
const MIN_BOUND_SECS: f64 = 0.1;

/// Draws everything that the files in `records` have figures for, below `into`.
pub fn files(into: &Path, records: &[PathBuf]) -> Result<()> {
    let mut all = Record::default();
    for path in records {
        let read = || anyhow::Ok(serde_json::from_slice::<Record>(&fs::read(path)?)?);
        let record = read().with_context(|| format!("failed to read {}", path.display()))?;
        all.bounds.extend(record.bounds);
        all.runs.extend(record.runs);
    }
    fs::create_dir_all(into)?;
    for (name, svg) in draw(&all) {
        let path = into.join(name);
        fs::write(&path, svg).with_context(|| format!("failed to write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Names of files and what is in them.
fn draw(record: &Record) -> Vec<(String, String)> {
    let mut pictures = Vec::new();
    for image in names(record, |run| &run.image) {
        let delays = delays(record, image);
        if delays.len() > 1 {
            let name = format!("pull-delay-{}.svg", image.replace(' ', "-"));
            pictures.push((name, over_delay(record, image, &delays)));
        }
    }
    let bound = of_bound(record);
    if !bound.groups.is_empty() {
        pictures.push(("pull-bound.svg".to_owned(), bound.svg()));
        pictures.push(("pull-memory.svg".to_owned(), memory(record, &bound).svg()));
    }
    pictures
}

/// Wall time over delay, a line for each tool.
fn over_delay(record: &Record, image: &str, delays: &BTreeSet<u64>) -> String {
    let tools = names(record, |run| &run.peer).into_iter().map(|tool| {
        let point = |delay: &u64| {
            let wall = median(record, tool, image, at(*delay), |cost| cost.wall_secs)?;
            Some((*delay as f64, wall))
        };
        Series {
            name: tool.to_owned(),
            points: delays.iter().filter_map(point).collect(),
        }
    });
    Lines {
        title: format!("{image}: a pull's time over the delay of the line"),
        x: "ms that a packet takes, each way".to_owned(),
        y: "seconds".to_owned(),
        series: tools.filter(|tool| !tool.points.is_empty()).collect(),
    }
    .svg()
}

/// Wall time as a multiple of what the machine could do.
fn of_bound(record: &Record) -> Bars {
    let bounds = record
        .bounds
        .iter()
        .filter(|bound| bound.fs == BESIDE.fs && bound.secs(bound.inflate) >= MIN_BOUND_SECS);
    let groups = bounds.map(|bound| Group {
        name: bound.image.clone(),
        bars: values(record, &bound.image, |cost| cost.wall_secs)
            .map(|(tool, wall)| (tool, wall / bound.secs(bound.inflate)))
            .collect(),
    });
    Bars {
        title: "A pull's time, as a multiple of the bound (on tmpfs, beside the registry)"
            .to_owned(),
        mark: Some(1.0),
        groups: groups.filter(|group| !group.bars.is_empty()).collect(),
    }
}

/// Peaks of memory of the same pulls.
fn memory(record: &Record, like: &Bars) -> Bars {
    let groups = like.groups.iter().map(|group| Group {
        name: group.name.clone(),
        bars: values(record, &group.name, |cost| cost.peak_kib as f64 / 1024.0).collect(),
    });
    Bars {
        title: "A pull's largest process, MiB".to_owned(),
        mark: None,
        groups: groups.collect(),
    }
}

/// What each tool that unpacks needed for an image beside the registry.
fn values<'a>(
    record: &'a Record,
    image: &'a str,
    value: fn(&crate::measure::Cost) -> f64,
) -> impl Iterator<Item = (String, f64)> + 'a {
    let tools = names(record, |run| &run.peer).into_iter();
    tools
        .filter(|tool| !tool.contains("no unpacking"))
        .filter_map(move |tool| {
            let median = median(record, tool, image, BESIDE, value)?;
            Some((tool.to_owned(), median))
        })
}

const fn at(delay_ms: u64) -> Place {
    Place {
        way: Way {
            delay_ms,
            ..Way::LOOPBACK
        },
        ..BESIDE
    }
}

/// The delays that `image` was pulled with, all else as on loopback.
fn delays(record: &Record, image: &str) -> BTreeSet<u64> {
    let runs = record.runs.iter().filter(|run| run.image == image);
    runs.filter(|run| run.place == at(run.place.way.delay_ms))
        .map(|run| run.place.way.delay_ms)
        .collect()
}

/// All values, in the order in which they appear first.
fn names(record: &Record, name: fn(&Run) -> &String) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in &record.runs {
        let name = name(run).as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn median(
    record: &Record,
    tool: &str,
    image: &str,
    place: Place,
    value: fn(&crate::measure::Cost) -> f64,
) -> Option<f64> {
    let runs = record.runs.iter();
    let runs = runs.filter(|run| run.peer == tool && run.image == image && run.place == place);
    middle(runs.filter_map(|run| run.outcome.as_ref().ok().map(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Bound, Stage};
    use crate::measure::Cost;

    fn run(peer: &str, delay_ms: u64, wall_secs: f64) -> Run {
        Run {
            peer: peer.to_owned(),
            image: "60s gz".to_owned(),
            place: at(delay_ms),
            round: 0,
            outcome: Ok(Cost {
                wall_secs,
                ..Cost::default()
            }),
            server_cpu_secs: 0.0,
            foreign_share: 0.0,
            requests: 62,
            line: None,
            files: 61,
        }
    }

    fn bound(image: &str, secs: f64) -> Bound {
        let stage = |secs| Stage {
            cpu_secs: secs,
            longest_secs: secs,
        };
        Bound {
            image: image.to_owned(),
            fs: FileSystem::Tmpfs,
            download: stage(0.0),
            server_cpu_secs: 0.0,
            hash_blob: stage(0.0),
            inflate: stage(secs),
            igzip: None,
            hash_plain: stage(0.0),
            write: stage(0.0),
        }
    }

    #[test]
    fn bars_are_of_images_with_a_bound_worth_the_name() {
        let mut record = Record {
            runs: vec![run("ours", 0, 3.0), run("skopeo (no unpacking)", 0, 1.0)],
            ..Record::default()
        };
        assert!(draw(&record).is_empty());
        record.bounds = vec![bound("tiny gz", 0.01), bound("60s gz", 2.0)];
        let bars = of_bound(&record);
        let [group] = &bars.groups[..] else {
            panic!("{bars:?}");
        };
        assert_eq!(group.name, "60s gz");
        assert_eq!(group.bars, [("ours".to_owned(), 1.5)]);
        let names: Vec<String> = draw(&record).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["pull-bound.svg", "pull-memory.svg"]);
    }

    #[test]
    fn a_record_that_was_written_is_drawn() {
        let runs = vec![
            run("ours", 0, 0.2),
            run("ours", 50, 1.5),
            run("a & <b>", 50, 3.0),
        ];
        let record = Record {
            runs,
            ..Record::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("record.json");
        fs::write(&json, serde_json::to_string(&record).unwrap()).unwrap();
        files(&folder.path().join("docs"), &[json]).unwrap();
        let svg = fs::read_to_string(folder.path().join("docs/pull-delay-60s-gz.svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &amp; &lt;b&gt;") && !svg.contains("<b>"));
        // A line has two points, a tool with one delay has none to be joined with.
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
