//! Figures of phases in configurations, over repeats: what an ablation and its siblings collect.

use std::fmt::Write;

use crate::report::{Point, Row, Sample, short};

/// What is measured: a phase, in a configuration, with a number of data servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) phase: &'static str,
    pub(crate) config: &'static str,
    pub(crate) data_servers: u32,
}

/// All samples of a benchmark, or of a part of it, in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Name of the part; none if they are of the whole benchmark.
    part: Option<&'static str>,
    all: Vec<(Key, Vec<Sample>)>,
}

impl Figures {
    /// Those of a part, which comes before the names of the phases.
    pub(crate) fn of(part: &'static str) -> Figures {
        Figures { part: Some(part), all: Vec::new() }
    }

    pub(crate) fn add(&mut self, key: Key, sample: Sample) {
        match self.all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, samples)) => samples.push(sample),
            None => self.all.push((key, vec![sample])),
        }
    }

    /// A text with the name of the part before it.
    fn titled(&self, text: &str) -> String {
        self.part.map_or_else(|| text.to_owned(), |part| format!("{part} {text}"))
    }

    /// The figure, if it was measured.
    pub(crate) fn row(&self, key: Key) -> Option<Row> {
        let (_, samples) = self.all.iter().find(|(known, _)| *known == key)?;
        let name = self.titled(&format!("{}, {}", key.phase, key.config));
        Some(Row::new(name, "/s", samples))
    }

    /// A configuration, and others beside it that may have to be faster by a factor.
    pub(crate) fn compared(&self, key: Key, others: &[(&'static str, Option<f64>)]) -> Vec<Row> {
        let Some(base) = self.row(key) else { return Vec::new() };
        let others = others.iter().filter_map(|(config, goal)| {
            let row = self.row(Key { config, ..key })?.against(&base);
            let Some(factor) = goal else { return Some(row) };
            let met = row.ratio() >= *factor;
            Some(row.goal(format!("at least {factor}"), met))
        });
        let others: Vec<Row> = others.collect();
        std::iter::once(base).chain(others).collect()
    }

    /// A phase over more and more data servers against the same over the first number of them;
    /// the medians may have to be the same, but for a tenth.
    pub(crate) fn over_data_servers(&self, key: Key, over: &[u32], flat: bool) -> Vec<Row> {
        let rows = over.iter().filter_map(|data_servers| {
            let row = self.row(Key { data_servers: *data_servers, ..key })?;
            let name = format!("{}, {data_servers} data servers", row.name);
            Some(row.named(name))
        });
        let mut rows: Vec<Row> = rows.collect();
        if let [one, others @ ..] = rows.as_mut_slice() {
            for other in others {
                let against = other.clone().against(one);
                let met = (0.9..=1.1).contains(&against.ratio());
                *other = if flat { against.goal("0.9 to 1.1", met) } else { against };
            }
        }
        rows
    }

    /// All figures of the benchmark with this name, as scripts and the plot read them.
    pub(crate) fn points(&self, bench: &str) -> Vec<Point> {
        let bench = self.part.map_or_else(|| bench.to_owned(), |part| format!("{bench} {part}"));
        let point = |(key, samples): &(Key, Vec<Sample>)| {
            let row = Row::new("", "/s", samples);
            Point {
                bench: bench.clone(),
                phase: key.phase.to_owned(),
                config: key.config.to_owned(),
                data_servers: key.data_servers,
                rate: row.median,
                least: row.least,
                most: row.most,
                wall_s: row.wall_s,
                cpu_s: row.cpu.server_s,
                client_cpu_s: row.cpu.client_s,
            }
        };
        self.all.iter().map(point).collect()
    }

    /// Rates with this number of data servers: a line for each phase, a column for each
    /// configuration.
    pub(crate) fn table(&self, data_servers: u32) -> String {
        let keys =
            || self.all.iter().map(|(key, _)| key).filter(|k| k.data_servers == data_servers);
        let (mut phases, mut configs) = (Vec::new(), Vec::new());
        for key in keys() {
            if !phases.contains(&key.phase) {
                phases.push(key.phase);
            }
            if !configs.contains(&key.config) {
                configs.push(key.config);
            }
        }
        let head = self.titled(&format!("/s, {data_servers} data servers"));
        let mut text = format!("  {head:<28}");
        for config in &configs {
            let _ = write!(text, " {config:>15}");
        }
        for phase in phases {
            let _ = write!(text, "\n  {phase:<28}");
            for config in &configs {
                let rate = self.row(Key { phase, config, data_servers }).map(|row| row.median);
                let _ = write!(text, " {:>15}", rate.map_or_else(|| "-".to_owned(), short));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cpu;

    /// Repeats of one key come together, in the order of the keys; the table has a place for each,
    /// and says where there is nothing.
    #[test]
    fn figures_come_together() {
        let mut figures = Figures::default();
        let key = |phase, config| Key { phase, config, data_servers: 4 };
        let cpu = Cpu { server_s: 0.5, client_s: 0.25 };
        for rate in [300.0, 100.0, 200.0] {
            figures.add(key("create", "off"), Sample::rate(rate, 1.0, cpu));
        }
        figures.add(key("remove", "on"), Sample::rate(7.0, 1.0, cpu));
        assert!(figures.row(key("create", "on")).is_none());
        assert_eq!(figures.row(key("create", "off")).unwrap().median, 200.0);
        let points = figures.points("small");
        assert_eq!((points[0].rate, points[0].least, points[0].cpu_s), (200.0, 100.0, 0.5));
        assert_eq!((points[1].phase.as_str(), points[1].config.as_str()), ("remove", "on"));
        let cells = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
        let lines: Vec<Vec<String>> = figures.table(4).lines().map(cells).collect();
        assert_eq!(lines[1..], [["200", "-"], ["-", "7.00"]]);
        assert!(figures.table(5).lines().count() == 1);
    }

    /// A part's name comes before those of its rows and behind that of the benchmark; a goal is
    /// met from its factor on, and flat is what differs by no more than a tenth.
    #[test]
    fn figures_are_compared() {
        let mut figures = Figures::of("shared");
        let key = |config, data_servers| Key { phase: "create", config, data_servers };
        for (config, data_servers, rate) in
            [("off", 1, 50.0), ("on", 1, 100.0), ("on", 2, 109.0), ("on", 4, 111.0)]
        {
            for noise in [0.7, 1.0, 1.4] {
                let sample = Sample::rate(rate * noise, 1.0, Cpu::default());
                figures.add(key(config, data_servers), sample);
            }
        }
        let json = |rows: &[Row]| serde_json::to_value(rows).unwrap();
        let rows = json(&figures.compared(key("off", 1), &[("on", Some(2.0)), ("other", None)]));
        assert_eq!(
            (&rows[0]["name"], &rows[1]["ratio"]["value"]),
            (&"shared create, off".into(), &2.0.into())
        );
        assert_eq!(rows[1]["goal"]["met"], true);
        assert_eq!(
            json(&figures.compared(key("off", 1), &[("on", Some(2.1))]))[1]["goal"]["met"],
            false
        );
        assert!(figures.compared(key("off", 2), &[("on", None)]).is_empty());
        let rows = json(&figures.over_data_servers(key("on", 0), &[1, 2, 3, 4], true));
        let met = [&rows[0]["goal"], &rows[1]["goal"]["met"], &rows[2]["goal"]["met"]];
        assert_eq!(met, [&serde_json::Value::Null, &true.into(), &false.into()]);
        assert_eq!(rows[2]["name"], "shared create, on, 4 data servers");
        assert_eq!(figures.points("mdtest")[0].bench, "mdtest shared");
    }
}
