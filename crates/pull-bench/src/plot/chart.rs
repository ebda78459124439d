//! SVG by hand: lines over a number, bars by group. Readable on a light and on a dark page.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;

/// How many colours there are.
const COLOURS: usize = 8;

/// The colours of `s0` to `s7` differ for colour-blind eyes too (Okabe and Ito). On a dark page the
/// first and the black one are lighter.
const STYLE: &str = "\
  <style>
    text { font: 13px sans-serif; }
    .head { font-weight: bold; }
    .bar { fill: currentColor; }
    .line { fill: none; stroke: currentColor; stroke-width: 2; }
    .page { fill: #ffffff; }
    text { fill: #222222; }
    .grid { stroke: #dddddd; }
    .mark { stroke: #222222; }
    .s0 { color: #0072b2; }
    .s1 { color: #d55e00; }
    .s2 { color: #009e73; }
    .s3 { color: #cc79a7; }
    .s4 { color: #e69f00; }
    .s5 { color: #56b4e9; }
    .s6 { color: #000000; }
    .s7 { color: #999999; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0f141b; }
      text { fill: #e6ebf2; }
      .grid { stroke: #333d49; }
      .mark { stroke: #e6ebf2; }
      .s0 { color: #3d9be0; }
      .s1 { color: #e8762c; }
      .s2 { color: #1fb88c; }
      .s3 { color: #cc79a7; }
      .s4 { color: #e69f00; }
      .s5 { color: #9bd4f5; }
      .s6 { color: #ffffff; }
      .s7 { color: #999999; }
    }
  </style>
";

/// Lines over a number.
#[derive(Debug)]
pub struct Lines {
    pub title: String,
    /// What the numbers below are.
    pub x: String,
    /// What the numbers to the left are.
    pub y: String,
    pub series: Vec<Series>,
}

/// One line.
#[derive(Debug)]
pub struct Series {
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// Horizontal bars.
#[derive(Debug)]
pub struct Bars {
    pub title: String,
    /// A value to draw a line at.
    pub mark: Option<f64>,
    pub groups: Vec<Group>,
}

/// Bars of one thing.
#[derive(Debug)]
pub struct Group {
    pub name: String,
    /// Name and value.
    pub bars: Vec<(String, f64)>,
}

impl Lines {
    /// The whole picture.
    pub fn svg(&self) -> String {
        let (left, right, top, bottom) = (60.0, WIDTH - 220.0, 50.0, 350.0);
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (x_step, x_end) = axis(points().map(|point| point.0).fold(0.0, f64::max));
        let (y_step, y_end) = axis(points().map(|point| point.1).fold(0.0, f64::max));
        let x = |value: f64| left + value / x_end * (right - left);
        let y = |value: f64| bottom - value / y_end * (bottom - top);
        let mut svg = Svg::new(&self.title, 410.0);
        for value in steps(y_step, y_end) {
            svg.line((left, y(value)), (right, y(value)), "grid");
            svg.text((left - 8.0, y(value) + 4.0), "end", &number(value));
        }
        for value in steps(x_step, x_end) {
            svg.text((x(value), bottom + 20.0), "middle", &number(value));
        }
        svg.text(((left + right) / 2.0, bottom + 42.0), "middle", &self.x);
        svg.text((left - 8.0, top - 14.0), "start", &self.y);
        for (index, series) in self.series.iter().enumerate() {
            let colour = index % COLOURS;
            let points: Vec<(f64, f64)> = series
                .points
                .iter()
                .map(|point| (x(point.0), y(point.1)))
                .collect();
            svg.path(&points, colour);
            let row = top + 20.0 * index as f64;
            svg.bar((right + 20.0, row), (14.0, 10.0), colour);
            svg.text((right + 42.0, row + 10.0), "start", &series.name);
        }
        svg.end()
    }
}

impl Bars {
    /// The whole picture.
    pub fn svg(&self) -> String {
        let (left, right, top) = (190.0, WIDTH - 60.0, 50.0);
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let (step, end) = axis(bars().map(|bar| bar.1).fold(0.0, f64::max));
        let x = |value: f64| left + value / end * (right - left);
        let heights = self
            .groups
            .iter()
            .map(|group| 34.0 + 18.0 * group.bars.len() as f64);
        let bottom = top + heights.sum::<f64>();
        let mut svg = Svg::new(&self.title, bottom + 40.0);
        for value in steps(step, end) {
            svg.line((x(value), top), (x(value), bottom), "grid");
            svg.text((x(value), bottom + 20.0), "middle", &number(value));
        }
        let mut names: Vec<&str> = Vec::new();
        let mut row = top;
        for group in &self.groups {
            row += 22.0;
            svg.bold((10.0, row), &group.name);
            row += 6.0;
            for (name, value) in &group.bars {
                let known = names.iter().position(|known| known == name);
                let index = known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
                let colour = index % COLOURS;
                svg.bar((left, row), (x(*value) - left, 14.0), colour);
                svg.text((left - 8.0, row + 12.0), "end", name);
                svg.text((x(*value) + 6.0, row + 12.0), "start", &shown(*value));
                row += 18.0;
            }
            row += 6.0;
        }
        if let Some(mark) = self.mark {
            svg.line((x(mark), top), (x(mark), bottom), "mark");
        }
        svg.end()
    }
}

/// A picture that is being written.
struct Svg(String);

impl Svg {
    fn new(title: &str, height: f64) -> Self {
        let mut svg = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title\">\n\
             <title id=\"title\">{}</title>\n{STYLE}\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
            escaped(title)
        ));
        svg.bold((10.0, 22.0), title);
        svg
    }

    fn text(&mut self, at: (f64, f64), anchor: &str, text: &str) {
        let (x, y, text) = (at.0, at.1, escaped(text));
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn bold(&mut self, at: (f64, f64), text: &str) {
        let (x, y, text) = (at.0, at.1, escaped(text));
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"head\">{text}</text>"
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), kind: &str) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{kind}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn bar(&mut self, at: (f64, f64), size: (f64, f64), colour: usize) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"bar s{colour}\"/>",
            at.0, at.1, size.0, size.1
        );
    }

    fn path(&mut self, points: &[(f64, f64)], colour: usize) {
        if points.len() > 1 {
            let joined: Vec<String> = points
                .iter()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = writeln!(
                self.0,
                "<polyline class=\"line s{colour}\" points=\"{}\"/>",
                joined.join(" ")
            );
        }
        for (x, y) in points {
            let _ = writeln!(
                self.0,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" class=\"bar s{colour}\"/>"
            );
        }
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The distance of the marks of an axis, and its end, so that `most` lies on it: at most six marks,
/// at 1, 2 or 5 times a power of ten.
fn axis(most: f64) -> (f64, f64) {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10_f64.powf((most / 6.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| most / step <= 6.0)
        .unwrap_or(most);
    (step, (most / step).ceil() * step)
}

fn steps(step: f64, end: f64) -> impl Iterator<Item = f64> {
    let count = (end / step).round() as u32;
    (0..=count).map(move |number| f64::from(number) * step)
}

/// A mark's number without digits that say nothing.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value in as many digits as its measuring is worth.
fn shown(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_behind_the_largest_value() {
        for (most, step, end) in [
            (0.0, 0.2, 1.0),
            (1.0, 0.2, 1.0),
            (4.3, 1.0, 5.0),
            (11.3, 2.0, 12.0),
            (50.0, 10.0, 50.0),
            (303.0, 100.0, 400.0),
        ] {
            let found = axis(most);
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(
                is_near(found.0, step) && is_near(found.1, end),
                "{most}: {found:?}"
            );
        }
    }

    #[test]
    fn numbers_have_no_empty_digits() {
        for (value, text) in [(0.0, "0"), (0.5, "0.5"), (10.0, "10"), (100.0, "100")] {
            assert_eq!(number(value), text);
        }
        assert_eq!([shown(1.234), shown(123.4)], ["1.23", "123"]);
    }
}
