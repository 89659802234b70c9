//! Samples, their medians, and how they are shown.

use std::path::Path;

use serde::Serialize;

use crate::outcome::Outcome;

/// Processor seconds of one repeat.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Cpu {
    /// Of the server process.
    pub(crate) server_s: f64,
    /// Of the client process.
    pub(crate) client_s: f64,
}

/// One measurement of one thing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// In the row's unit.
    pub(crate) value: f64,
    /// Wall seconds it took.
    pub(crate) wall_s: f64,
    pub(crate) cpu: Cpu,
    /// Most memory the server process had; 0: there was no server.
    pub(crate) rss_bytes: u64,
}

impl Sample {
    /// A rate: an amount of something over the seconds it took.
    pub(crate) fn rate(amount: f64, wall_s: f64, cpu: Cpu) -> Sample {
        Sample { value: amount / wall_s, wall_s, cpu, rss_bytes: 0 }
    }

    /// The same with the server's memory.
    pub(crate) fn with_rss(self, rss_bytes: u64) -> Sample {
        Sample { rss_bytes, ..self }
    }
}

/// Repeats below which a median says nothing about a goal.
const REPEATS_MIN: usize = 3;

/// A ratio of two rows.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ratio {
    /// The row divided by.
    to: String,
    value: f64,
    /// Repeats of that row.
    #[serde(skip)]
    repeats: usize,
}

/// What we want to reach.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Goal {
    what: String,
    /// Not known with fewer repeats than it takes to judge.
    met: Option<bool>,
}

impl Goal {
    fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not judged: too few repeats",
        }
    }
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    /// The middle of the repeats; of an even number the lower one.
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) repeats: usize,
    /// Wall seconds, median.
    pub(crate) wall_s: f64,
    /// Processor seconds, medians.
    pub(crate) cpu: Cpu,
    /// Most memory the server process ever had, MiB; 0: there was no server.
    pub(crate) server_rss_mib: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<Goal>,
}

/// Bytes in a MiB.
pub(crate) const MIB: f64 = (1 << 20) as f64;

impl Row {
    /// The figure that samples of one thing make.
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, samples: &[Sample]) -> Row {
        let of = |f: fn(&Sample) -> f64| sorted(samples.iter().map(f));
        let values = of(|s| s.value);
        Row {
            name: name.into(),
            unit,
            median: median(&values),
            least: values.first().copied().unwrap_or(f64::NAN),
            most: values.last().copied().unwrap_or(f64::NAN),
            repeats: samples.len(),
            wall_s: median(&of(|s| s.wall_s)),
            cpu: Cpu {
                server_s: median(&of(|s| s.cpu.server_s)),
                client_s: median(&of(|s| s.cpu.client_s)),
            },
            server_rss_mib: of(|s| s.rss_bytes as f64).last().copied().unwrap_or(0.0) / MIB,
            ratio: None,
            goal: None,
        }
    }

    /// A single number that is not a repeat of anything.
    pub(crate) fn single(name: impl Into<String>, unit: &'static str, value: f64) -> Row {
        let sample = Sample { value, wall_s: 0.0, cpu: Cpu::default(), rss_bytes: 0 };
        Row::new(name, unit, &[sample])
    }

    /// The same figure under another name.
    pub(crate) fn named(self, name: impl Into<String>) -> Row {
        Row { name: name.into(), ..self }
    }

    /// Adds the ratio of the medians to another row's.
    pub(crate) fn against(mut self, other: &Row) -> Row {
        let value = self.median / other.median;
        self.ratio = Some(Ratio { to: other.name.clone(), value, repeats: other.repeats });
        self
    }

    /// The ratio; not a number without one.
    pub(crate) fn ratio(&self) -> f64 {
        self.ratio.as_ref().map_or(f64::NAN, |r| r.value)
    }

    /// Adds a goal and whether the median, or the ratio of the medians, meets it. With fewer than
    /// [`REPEATS_MIN`] repeats of either row it is not judged.
    pub(crate) fn goal(mut self, what: impl Into<String>, met: bool) -> Row {
        let repeats = self.ratio.as_ref().map_or(self.repeats, |r| r.repeats.min(self.repeats));
        let met = (repeats >= REPEATS_MIN).then_some(met);
        self.goal = Some(Goal { what: what.into(), met });
        self
    }

    /// The same for what no repeat makes surer: a count, or a most of everything.
    pub(crate) fn goal_counted(mut self, what: impl Into<String>, met: bool) -> Row {
        self.goal = Some(Goal { what: what.into(), met: Some(met) });
        self
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// A figure as scripts and the plot read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) bench: String,
    pub(crate) phase: String,
    pub(crate) config: String,
    pub(crate) data_servers: u32,
    /// Operations a second, the median of the repeats.
    pub(crate) rate: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// Wall seconds of the phase.
    pub(crate) wall_s: f64,
    /// Processor seconds of the servers in the phase.
    pub(crate) cpu_s: f64,
    /// The same of the clients.
    pub(crate) client_cpu_s: f64,
}

/// All figures of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    processors: usize,
    quick: bool,
    repeats: u32,
    benches: Vec<Section>,
    /// Figures of phases in configurations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    points: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct Section {
    name: String,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(quick: bool, repeats: u32) -> Report {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        println!("{processors} processors; median of {repeats}, in brackets least and most");
        println!(
            "{:<34} {:>34} {:>7} {:>7} {:>7} {:>8}  RATIO",
            "FIGURE", "VALUE", "WALL s", "SRV s", "CLI s", "RSS MiB"
        );
        let version = env!("CARGO_PKG_VERSION");
        Report { version, processors, quick, repeats, benches: Vec::new(), points: Vec::new() }
    }

    /// Shows and keeps the figures of one benchmark.
    pub(crate) fn add(&mut self, name: &str, rows: Vec<Row>) {
        println!("{name}");
        rows.iter().for_each(print);
        self.benches.push(Section { name: name.to_owned(), rows });
    }

    /// Keeps figures of phases in configurations.
    pub(crate) fn add_points(&mut self, points: Vec<Point>) {
        self.points.extend(points);
    }

    /// Figures of phases in configurations so far.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Writes all figures as JSON.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Outcome {
        let text = serde_json::to_vec_pretty(self)?;
        std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()).into())
    }
}

fn print(row: &Row) {
    let range = match row.repeats {
        1 => String::new(),
        _ => format!(" [{} {}]", short(row.least), short(row.most)),
    };
    let value = format!("{}{range} {}", short(row.median), row.unit);
    let or_dash = |n: f64| if n == 0.0 { "-".to_owned() } else { format!("{n:.2}") };
    print!(
        "  {:<32} {value:>34} {:>7} {:>7} {:>7} {:>8}",
        row.name,
        or_dash(row.wall_s),
        or_dash(row.cpu.server_s),
        or_dash(row.cpu.client_s),
        if row.server_rss_mib == 0.0 { "-".to_owned() } else { short(row.server_rss_mib) },
    );
    if let Some(r) = &row.ratio {
        print!("  {:.2} of {}", r.value, r.to);
    }
    if let Some(g) = &row.goal {
        print!("  ({}: {})", g.what, g.verdict());
    }
    println!();
}

/// Three digits or so; a dash for what there is none of.
pub(crate) fn short(n: f64) -> String {
    match n.abs() {
        n if n.is_nan() => "-".to_owned(),
        n if n >= 100.0 || n == 0.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        _ => format!("{n:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Sample {
        Sample::rate(value, 1.0, Cpu::default())
    }

    /// A row has the middle sample, whatever the order, and the range of all.
    #[test]
    fn medians() {
        let row = Row::new("a", "x", &[sample(9.0), sample(1.0), sample(2.0)]);
        assert_eq!((row.median, row.least, row.most, row.repeats), (2.0, 1.0, 9.0, 3));
        let even = Row::new("b", "x", &[sample(4.0), sample(3.0)]);
        assert_eq!(even.median, 3.0);
        assert_eq!(row.against(&even).ratio(), 2.0 / 3.0);
    }

    /// Medians of fewer than three repeats, of the figure or of what it is held against, judge no
    /// goal; ranges that overlap meet none. What is counted needs no repeats.
    #[test]
    fn goals_need_repeats() {
        let row = |values: &[f64]| {
            Row::new("a", "x", &values.iter().map(|v| sample(*v)).collect::<Vec<_>>())
        };
        let verdict = |row: Row, met| row.goal("more", met).goal.unwrap().verdict();
        let (two, three) = (row(&[1.0, 2.0]), row(&[1.0, 2.0, 3.0]));
        assert_eq!(verdict(two.clone(), true), "not judged: too few repeats");
        assert_eq!(verdict(three.clone(), true), "met");
        assert_eq!(verdict(three.clone(), false), "MISSED");
        assert_eq!(verdict(three.clone().against(&two), true), "not judged: too few repeats");
        assert_eq!(verdict(two.against(&three), false), "not judged: too few repeats");
        let counted = Row::single("a", "x", 0.0).goal_counted("none", true);
        assert_eq!(counted.goal.unwrap().verdict(), "met");
    }

    /// The form that scripts read.
    #[test]
    fn json_keeps_its_form() {
        let row = Row::single("a", "x", 2.0);
        let row = row.clone().against(&row).goal_counted("more", false);
        let json = serde_json::to_value(row).unwrap();
        assert_eq!(json["median"], 2.0);
        assert_eq!(json["ratio"]["value"], 1.0);
        assert_eq!(json["goal"]["met"], false);
        assert_eq!(json["cpu"]["server_s"], 0.0);
    }
}
