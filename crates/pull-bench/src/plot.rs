//! Pictures of tables: how a pull's time grows with the delay, how far it is from the bound, and
//! how much memory it takes.

mod chart;
mod figures;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::options::FileSystem;
use crate::rounds::Place;
use crate::way::Way;
use chart::{Bars, Group, Lines, Series};
use figures::{Figures, Pull};

/// Below, a pull costs what it costs without any layer, and the ratio says nothing.
const MIN_BOUND_SECS: f64 = 0.1;

/// Draws everything that a page has figures for, beside the page.
pub fn page(page: &Path) -> Result<()> {
    let text = || anyhow::Ok(draw(&fs::read_to_string(page)?)?);
    let pictures = text().with_context(|| format!("failed to draw {}", page.display()))?;
    for (name, svg) in pictures {
        let path = page.with_file_name(name);
        fs::write(&path, svg).with_context(|| format!("failed to write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Names of files and what is in them.
fn draw(page: &str) -> Result<BTreeMap<String, String>> {
    let mut pictures = BTreeMap::new();
    for run in figures::read(page)? {
        for (name, svg) in draw_run(&run) {
            ensure!(!pictures.contains_key(&name), "two runs have a {name}");
            pictures.insert(name, svg);
        }
    }
    Ok(pictures)
}

fn draw_run(run: &Figures) -> Vec<(String, String)> {
    let mut pictures = Vec::new();
    for image in names(run.pulls.iter().map(|pull| &pull.image)) {
        let delays = delays(run, image);
        if delays.len() > 1 {
            let name = format!("pull-delay-{}.svg", image.replace(' ', "-"));
            pictures.push((name, over_delay(run, image, &delays)));
        }
    }
    let bound = of_bound(run);
    if !bound.groups.is_empty() {
        pictures.push(("pull-bound.svg".to_owned(), bound.svg()));
        pictures.push(("pull-memory.svg".to_owned(), memory(run, &bound).svg()));
    }
    pictures
}

/// Wall time over delay, a line for each tool.
fn over_delay(run: &Figures, image: &str, delays: &BTreeSet<u64>) -> String {
    let tools = names(run.pulls.iter().map(|pull| &pull.tool));
    let tools = tools.into_iter().map(|tool| {
        let point = |delay: &u64| {
            let mut pulls = pulls(run, image, *delay);
            let pull = pulls.find(|pull| pull.tool == tool)?;
            Some((*delay as f64, pull.wall_secs))
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
fn of_bound(run: &Figures) -> Bars {
    let is_bound = |fs: &str, secs: f64| fs == FileSystem::Tmpfs.name() && secs >= MIN_BOUND_SECS;
    let bounds = run
        .bounds
        .iter()
        .filter(|(_, fs, secs)| is_bound(fs, *secs));
    let groups = bounds.map(|(image, ..)| group(run, image, |pull| pull.of_bound));
    Bars {
        title: "A pull's time, as a multiple of the bound (on tmpfs, beside the registry)"
            .to_owned(),
        mark: Some(1.0),
        groups: groups.filter(|group| !group.bars.is_empty()).collect(),
    }
}

/// Peaks of memory of the same pulls.
fn memory(run: &Figures, like: &Bars) -> Bars {
    let groups = like.groups.iter();
    Bars {
        title: "A pull's largest process, MiB".to_owned(),
        mark: None,
        groups: groups
            .map(|group_of| group(run, &group_of.name, |pull| Some(pull.peak_mib)))
            .collect(),
    }
}

/// What each tool that unpacks needed for an image beside the registry.
fn group(run: &Figures, image: &str, value: fn(&Pull) -> Option<f64>) -> Group {
    let pulls = pulls(run, image, 0).filter(|pull| !pull.tool.contains("no unpacking"));
    let bars = pulls.filter_map(|pull| Some((pull.tool.clone(), value(pull)?)));
    Group {
        name: image.to_owned(),
        bars: bars.collect(),
    }
}

fn pulls<'a>(
    run: &'a Figures,
    image: &'a str,
    delay_ms: u64,
) -> impl Iterator<Item = &'a Pull> + use<'a> {
    let place = at(delay_ms);
    let pulls = run.pulls.iter();
    pulls.filter(move |pull| pull.image == image && pull.place == place)
}

/// What a table calls the place with this delay and nothing else; without one the bound holds.
fn at(delay_ms: u64) -> String {
    let way = Way {
        delay_ms,
        ..Way::LOOPBACK
    };
    let fs = FileSystem::Tmpfs;
    Place { fs, way }.title()
}

/// The delays that `image` was pulled with, all else as on loopback.
fn delays(run: &Figures, image: &str) -> BTreeSet<u64> {
    let pulls = run.pulls.iter().filter(|pull| pull.image == image);
    let delay = |pull: &Pull| {
        let mut numbers = pull.place.split(' ').filter_map(|word| word.parse().ok());
        let delay = numbers.next().unwrap_or_default();
        (pull.place == at(delay)).then_some(delay)
    };
    pulls.filter_map(delay).collect()
}

/// All names, in the order in which they appear first.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "| image | tool | wall s | peak MiB | of the bound |\n|---|---|---|---|---|\n";

    /// The pictures beside the page are those that `hack/bench plot` draws now.
    #[test]
    fn the_pictures_of_the_page_are_those_of_its_tables() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance");
        let page = fs::read_to_string(folder.join("figures.md")).unwrap();
        let drawn = draw(&page).unwrap();
        let is_there: BTreeMap<String, String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "svg"))
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        assert!(drawn.len() >= 4, "{:?}", drawn.keys());
        assert!(drawn == is_there, "hack/bench plot draws something else");
    }

    #[test]
    fn bars_are_of_images_with_a_bound_worth_the_name() {
        let pulls = format!(
            "1 core. 3 rounds, medians.\n## Pull, verify, unpack on tmpfs, loopback\n{HEAD}\
             | tiny gz | ours | 0.1 | 9.0 | 10.0 |\n| big gz | ours | 3.0 | 20.0 | 1.5 |\n\
             | big gz | skopeo (no unpacking) | 1.0 | 9.0 | 0.5 |\n"
        );
        assert!(draw(&pulls).unwrap().is_empty());
        let bounds = "\n## The bound on tmpfs\n| image | bound s |\n|---|---|\n\
            | tiny gz | 0.01 |\n| big gz | 2.0 |\n";
        let page = pulls + bounds;
        let bars = of_bound(&figures::read(&page).unwrap()[0]);
        let [group] = &bars.groups[..] else {
            panic!("{bars:?}");
        };
        assert_eq!(group.name, "big gz");
        assert_eq!(group.bars, [("ours".to_owned(), 1.5)]);
        let drawn = draw(&page).unwrap();
        let names: Vec<&str> = drawn.keys().map(String::as_str).collect();
        assert_eq!(names, ["pull-bound.svg", "pull-memory.svg"]);
        // Which of two would it be?
        assert!(draw(&format!("{page}{page}")).is_err());
    }

    #[test]
    fn lines_are_of_images_with_two_delays() {
        let row = |tool: &str, secs: f64| format!("| a gz | {tool} | {secs} | 1.0 | - |\n");
        let on = |place: &str| format!("\n## Pull, verify, unpack on {place}\n{HEAD}");
        let beside = format!(
            "3 rounds, medians.\n{}{}",
            on("tmpfs, loopback"),
            row("ours", 0.2)
        );
        assert!(draw(&beside).unwrap().is_empty());
        let far = on("tmpfs, 50 ms each way") + &row("ours", 1.5) + &row("a & <b>", 3.0);
        let svg = &draw(&(beside + &far)).unwrap()["pull-delay-a-gz.svg"];
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &amp; &lt;b&gt;") && !svg.contains("<b>"));
        // A line has two points, a tool with one delay has none to be joined with.
        assert_eq!(svg.matches("<polyline").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
