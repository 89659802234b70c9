//! Figures of phases in configurations, over repeats: what an ablation and its siblings collect.

use std::fmt::Write;

use serde::Serialize;

use super::report::{Row, Sample, short};

/// What is measured: a phase, in a configuration, with so many data servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) phase: &'static str,
    pub(super) config: &'static str,
    pub(super) data_servers: u32,
}

/// A figure as scripts and the plot read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Point {
    pub(super) bench: String,
    pub(super) phase: String,
    pub(super) config: String,
    pub(super) data_servers: u32,
    /// Operations a second, the median of the repeats.
    pub(super) rate: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Wall seconds of the phase.
    pub(super) wall_s: f64,
    /// Processor seconds of the servers in the phase.
    pub(super) cpu_s: f64,
    /// The same of the clients.
    pub(super) client_cpu_s: f64,
}

/// All samples of a benchmark, in the order of their first appearance.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<(Key, Vec<Sample>)>);

impl Figures {
    pub(super) fn add(&mut self, key: Key, sample: Sample) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, samples)) => samples.push(sample),
            None => self.0.push((key, vec![sample])),
        }
    }

    /// The figure, if it was measured.
    pub(super) fn row(&self, key: Key) -> Option<Row> {
        let (_, samples) = self.0.iter().find(|(known, _)| *known == key)?;
        Some(Row::new(format!("{}, {}", key.phase, key.config), "/s", samples))
    }

    /// All of them.
    pub(super) fn points(&self, bench: &str) -> Vec<Point> {
        let point = |(key, samples): &(Key, Vec<Sample>)| {
            let row = Row::new("", "/s", samples);
            Point {
                bench: bench.to_owned(),
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
        self.0.iter().map(point).collect()
    }

    /// Rates with so many data servers: a line for each phase, a column for each configuration.
    pub(super) fn table(&self, data_servers: u32) -> String {
        let keys = || self.0.iter().map(|(key, _)| key).filter(|k| k.data_servers == data_servers);
        let (mut phases, mut configs) = (Vec::new(), Vec::new());
        for key in keys() {
            if !phases.contains(&key.phase) {
                phases.push(key.phase);
            }
            if !configs.contains(&key.config) {
                configs.push(key.config);
            }
        }
        let mut text = format!("  {:<24}", format!("/s, {data_servers} data servers"));
        for config in &configs {
            let _ = write!(text, " {config:>15}");
        }
        for phase in phases {
            let _ = write!(text, "\n  {phase:<24}");
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
    use super::super::report::Cpu;
    use super::*;

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
}
