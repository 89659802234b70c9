//! Figures as grouped bars: SVG, made here, since it is little more than rectangles.

use std::fmt::Write;

use crate::report::{Point, short};

/// Height of the bars' area, pixels.
const HEIGHT: f64 = 260.0;
/// Above it: title and legend.
const HEAD: f64 = 56.0;
/// Below it: names of groups.
const FOOT: f64 = 40.0;
/// Left of it: names of rates.
const MARGIN: f64 = 64.0;
/// Width of a bar, and of the space between groups.
const BAR: f64 = 13.0;
const GAP: f64 = 22.0;
/// Colours of a group's bars, which colour-blind readers can tell apart (after Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#999999", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];

/// Groups of bars with common names and one scale.
struct Panel {
    title: String,
    /// Names of the bars, the same in every group.
    bars: Vec<String>,
    groups: Vec<(String, Vec<Option<f64>>)>,
}

/// Two panels a benchmark: every configuration in every phase, and the phases that were measured
/// with several numbers of data servers.
pub(crate) fn svg(points: &[Point]) -> String {
    let mut panels = Vec::new();
    for bench in distinct(points.iter().map(|p| p.bench.as_str())) {
        let of_bench: Vec<&Point> = points.iter().filter(|p| p.bench == bench).collect();
        panels.extend(configurations(bench, &of_bench));
        panels.extend(data_servers(bench, &of_bench));
    }
    let width = panels.iter().map(Panel::width).fold(0.0, f64::max);
    let height = panels.len() as f64 * (HEAD + HEIGHT + FOOT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let top = index as f64 * (HEAD + HEIGHT + FOOT);
        let _ = writeln!(out, "<g transform=\"translate(0 {top})\">");
        panel.draw(&mut out);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// Each once, in the order of their first appearance.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

fn configurations(bench: &str, points: &[&Point]) -> Option<Panel> {
    let most = points.iter().map(|p| p.data_servers).max()?;
    let points: Vec<&&Point> = points.iter().filter(|p| p.data_servers == most).collect();
    let configs = distinct(points.iter().map(|p| p.config.as_str()));
    let group = |phase: &str| {
        let rate = |config: &&str| {
            let point = points.iter().find(|p| p.phase == phase && p.config == *config);
            point.map(|p| p.rate)
        };
        (phase.to_owned(), configs.iter().map(rate).collect())
    };
    Some(Panel {
        title: format!("{bench}: operations a second with {most} data servers"),
        groups: distinct(points.iter().map(|p| p.phase.as_str())).into_iter().map(group).collect(),
        bars: configs.into_iter().map(str::to_owned).collect(),
    })
}

fn data_servers(bench: &str, points: &[&Point]) -> Option<Panel> {
    let mut counts = distinct(points.iter().map(|p| p.data_servers));
    counts.sort_unstable();
    let least = counts.first().copied().filter(|_| counts.len() > 1)?;
    let measured = points.iter().filter(|p| p.data_servers == least);
    let group = |(phase, config): (&str, &str)| {
        let rate = |count: &u32| {
            let same =
                |p: &&&Point| p.phase == phase && p.config == config && p.data_servers == *count;
            points.iter().find(same).map(|p| p.rate)
        };
        (format!("{phase}, {config}"), counts.iter().map(rate).collect())
    };
    Some(Panel {
        title: format!("{bench}: operations a second over data servers"),
        groups: distinct(measured.map(|p| (p.phase.as_str(), p.config.as_str())))
            .into_iter()
            .map(group)
            .collect(),
        bars: counts.iter().map(|n| format!("{n} data servers")).collect(),
    })
}

impl Panel {
    fn group_width(&self) -> f64 {
        (self.bars.len() as f64 * BAR + GAP).max(110.0)
    }

    fn width(&self) -> f64 {
        MARGIN + self.groups.len().max(8) as f64 * self.group_width() + GAP
    }

    /// The powers of ten below and above all rates.
    fn decades(&self) -> (i32, i32) {
        let rates =
            || self.groups.iter().flat_map(|(_, r)| r.iter().flatten()).filter(|r| **r > 0.0);
        let least = rates().copied().fold(f64::INFINITY, f64::min);
        let most = rates().copied().fold(0.0, f64::max);
        if most == 0.0 {
            return (0, 1);
        }
        let low = least.log10().floor() as i32;
        (low, (most.log10().ceil() as i32).max(low + 1))
    }

    fn draw(&self, out: &mut String) {
        let (low, high) = self.decades();
        let y = |rate: f64| {
            let part = (rate.log10() - f64::from(low)) / f64::from(high - low);
            HEAD + HEIGHT * (1.0 - part.clamp(0.0, 1.0))
        };
        let title = escaped(&self.title);
        let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"18\" font-size=\"14\">{title}</text>");
        self.legend(out);
        for decade in low..=high {
            let (at, rate) = (y(10_f64.powi(decade)), short(10_f64.powi(decade)));
            let (right, before) = (self.width() - GAP, MARGIN - 6.0);
            let _ = writeln!(
                out,
                "<path d=\"M{MARGIN} {at:.1}H{right}\" stroke=\"#dddddd\"/>\
                 <text x=\"{before}\" y=\"{at:.1}\" text-anchor=\"end\">{rate}</text>"
            );
        }
        for (index, (name, rates)) in self.groups.iter().enumerate() {
            let left = MARGIN + index as f64 * self.group_width() + GAP / 2.0;
            for (bar, rate) in rates.iter().enumerate() {
                let Some(rate) = rate else { continue };
                let (x, top) = (left + bar as f64 * BAR, y(*rate));
                let (height, colour) = (HEAD + HEIGHT - top, COLOURS[bar % COLOURS.len()]);
                let tip = escaped(&format!("{name}, {}: {}", self.bars[bar], short(*rate)));
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
                     fill=\"{colour}\"><title>{tip}</title></rect>",
                    BAR - 1.0
                );
            }
            let (at, below) = (left, HEAD + HEIGHT + 16.0);
            let _ = writeln!(out, "<text x=\"{at:.1}\" y=\"{below}\">{}</text>", escaped(name));
        }
    }

    fn legend(&self, out: &mut String) {
        let mut x = MARGIN;
        for (bar, name) in self.bars.iter().enumerate() {
            let colour = COLOURS[bar % COLOURS.len()];
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"29\" width=\"11\" height=\"11\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"39\">{}</text>",
                x + 15.0,
                escaped(name)
            );
            x += 30.0 + 6.5 * name.len() as f64;
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(phase: &str, config: &str, data_servers: u32, rate: f64) -> Point {
        Point {
            bench: "small".into(),
            phase: phase.into(),
            config: config.into(),
            data_servers,
            rate,
            least: rate,
            most: rate,
            wall_s: 1.0,
            cpu_s: 1.0,
            client_cpu_s: 1.0,
        }
    }

    /// Every rate is a bar that says what it is; ten times the rate is a decade more height.
    #[test]
    fn every_point_is_a_bar() {
        let points = [
            point("create", "off", 32, 100.0),
            point("create", "on", 32, 1000.0),
            point("create", "on", 1, 1000.0),
            point("read <&>", "on", 32, 10.0),
        ];
        let text = svg(&points);
        let bars = |text: &str| text.matches("<title>").count();
        assert_eq!(bars(&text), 3 + 2);
        assert!(text.contains("<title>create, on: 1000</title>"));
        assert!(text.contains("read &lt;&amp;&gt;") && !text.contains("<&>"));
        let points: Vec<&Point> = points.iter().collect();
        let panel = configurations("small", &points).unwrap();
        assert_eq!(panel.decades(), (1, 3));
        let mut drawn = String::new();
        panel.draw(&mut drawn);
        assert!(drawn.contains("height=\"130.0\"") && drawn.contains("height=\"260.0\""));
        assert_eq!(drawn.matches("<g").count(), drawn.matches("</g").count());
        assert!(data_servers("small", &points[3..]).is_none());
    }
}
