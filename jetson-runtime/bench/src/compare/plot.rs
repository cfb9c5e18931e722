//! The cells as a picture: time over budget, a line for each policy, a panel for each trace and
//! device.
//!
//! In: cells. Out: SVG 1.1, text and shapes only, so that any browser shows it. Times are on a
//! logarithmic scale, since what is compared are ratios. Policies as published are dotted lines, in
//! the colour of their paged variants; the planner's lines have one colour, the widest where it has
//! both methods. Where a policy has no plan, its line has no point.

use std::fmt::Write as _;

use super::Cell;
use super::cell::SWAP;

const PANEL: (f64, f64) = (320.0, 210.0);
/// Left, top, right and bottom of a panel, for its labels.
const MARGIN: (f64, f64, f64, f64) = (44.0, 26.0, 12.0, 34.0);
const CAPTION: &str = "time of a step over its time without a limit, by memory over the peak";
const CAPTION_HEIGHT: f64 = 22.0;
const LEGEND_HEIGHT: f64 = 22.0;
const LEGEND_WIDTH: f64 = 160.0;
/// Entries of the legend beside each other, for each column of panels.
const LEGEND_ENTRIES: usize = 2;
/// A label of a budget, with the space beside it.
const LABEL_WIDTH: f64 = 34.0;
/// Colours that stay apart for most eyes; the last is the planner's.
const COLOURS: [&str; 12] = [
    "#9e9e9e", "#a6761d", "#e6ab02", "#66a61e", "#1f78b4", "#7570b3", "#17becf", "#fb9a99",
    "#e7298a", "#d95f02", "#6a3d9a", "#b2df8a",
];
const OWN_COLOUR: &str = "#d00000";
const BOUND: &str = "no swapping is faster";
const BOUND_COLOUR: &str = "#000000";
/// Ratios that get a line across each panel.
const TICKS: [f64; 11] = [1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0];

/// The picture.
#[must_use]
pub fn svg(cells: &[Cell]) -> String {
    let mut panels: Vec<(&str, &str)> = Vec::new();
    let mut devices: Vec<&str> = Vec::new();
    let mut policies: Vec<&str> = Vec::new();
    for cell in cells {
        let panel = (cell.trace.as_str(), cell.device.as_str());
        if !panels.contains(&panel) {
            panels.push(panel);
        }
        if !devices.contains(&panel.1) {
            devices.push(panel.1);
        }
        if !policies.contains(&cell.policy.as_str()) {
            policies.push(&cell.policy);
        }
    }
    // A row for each trace, or rows of three where there is one device only.
    let columns = if devices.len() > 1 {
        devices.len()
    } else {
        panels.len().clamp(1, 3)
    };
    let width = PANEL.0 * to_f64(columns);
    let per_row = LEGEND_ENTRIES * columns;
    let legend_rows = (policies.len() + 1).div_ceil(per_row);
    let legend = CAPTION_HEIGHT + LEGEND_HEIGHT * to_f64(legend_rows) + 10.0;
    let height = legend + PANEL.1 * to_f64(panels.len().div_ceil(columns));
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"16\">{CAPTION}</text>\n"
    );
    let names = policies.iter().copied().chain([BOUND]);
    for (index, name) in names.enumerate() {
        let x = LEGEND_WIDTH * to_f64(index % per_row) + 10.0;
        let y = CAPTION_HEIGHT + LEGEND_HEIGHT * to_f64(index / per_row) + 14.0;
        let style = style(name, &policies);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" {style}/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 22.0,
            x + 28.0,
            y + 4.0,
            escaped(name)
        );
    }
    for (index, &(trace, device)) in panels.iter().enumerate() {
        let x = PANEL.0 * to_f64(index % columns);
        let y = legend + PANEL.1 * to_f64(index / columns);
        let here: Vec<&Cell> = cells
            .iter()
            .filter(|cell| cell.trace == trace && cell.device == device)
            .collect();
        let _ = writeln!(text, "<g transform=\"translate({x:.0},{y:.0})\">");
        panel(&mut text, &format!("{trace}, {device}"), &here, &policies);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

/// Where a panel draws what.
struct Scale {
    budget_min: f64,
    budget_max: f64,
    ratio_max: f64,
}

impl Scale {
    fn of(cells: &[&Cell]) -> Self {
        let budgets = cells.iter().map(|cell| cell.budget_fraction);
        let ratios = cells.iter().filter_map(|cell| plotted(cell));
        let (low, high) = budgets.fold((f64::INFINITY, 0.0_f64), |(low, high), budget| {
            (low.min(budget), high.max(budget))
        });
        Self {
            budget_min: low - 0.03,
            budget_max: high + 0.03,
            ratio_max: ratios.fold(1.2, f64::max) * 1.05,
        }
    }

    fn x(&self, budget: f64) -> f64 {
        let share = (budget - self.budget_min) / (self.budget_max - self.budget_min);
        MARGIN.0 + share * (PANEL.0 - MARGIN.0 - MARGIN.2)
    }

    fn y(&self, ratio: f64) -> f64 {
        let share = ratio.max(1.0).ln() / self.ratio_max.ln();
        PANEL.1 - MARGIN.3 - share * (PANEL.1 - MARGIN.1 - MARGIN.3)
    }
}

/// The time to draw.
fn plotted(cell: &Cell) -> Option<f64> {
    cell.ratio.filter(|_| cell.feasible)
}

fn panel(text: &mut String, title: &str, cells: &[&Cell], policies: &[&str]) {
    let scale = Scale::of(cells);
    let (left, right) = (MARGIN.0, PANEL.0 - MARGIN.2);
    let (top, bottom) = (MARGIN.1, PANEL.1 - MARGIN.3);
    let _ = writeln!(
        text,
        "<text x=\"{left}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
        top - 9.0,
        escaped(title)
    );
    for tick in TICKS.into_iter().filter(|&tick| tick <= scale.ratio_max) {
        let y = scale.y(tick);
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            left - 5.0,
            y + 4.0
        );
    }
    let mut budgets: Vec<f64> = cells.iter().map(|cell| cell.budget_fraction).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    let mut free_from = 0.0;
    for budget in budgets {
        // Labels that would run into each other say less than fewer of them.
        if scale.x(budget) < free_from {
            continue;
        }
        free_from = scale.x(budget) + LABEL_WIDTH;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>",
            scale.x(budget),
            bottom + 15.0,
            budget * 100.0
        );
    }
    let _ = writeln!(
        text,
        "<path d=\"M{left},{top} V{bottom} H{right}\" fill=\"none\" stroke=\"#666666\"/>"
    );
    let bound = |cell: &&&Cell| cell.policy == policies[0];
    let points = cells.iter().filter(bound);
    let points = points.map(|cell| (cell.budget_fraction, cell.bound_ratio));
    line(text, &scale, points.collect(), &style(BOUND, policies), "");
    for policy in policies {
        let own = cells.iter().filter(|cell| cell.policy == *policy);
        let points = own.filter_map(|cell| Some((cell.budget_fraction, plotted(cell)?)));
        let fill = colour(policy, policies);
        line(
            text,
            &scale,
            points.collect(),
            &style(policy, policies),
            fill,
        );
    }
}

/// A line through points, with a dot on each if they have a colour.
fn line(text: &mut String, scale: &Scale, mut points: Vec<(f64, f64)>, style: &str, fill: &str) {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at: Vec<(f64, f64)> = points
        .iter()
        .map(|&(budget, ratio)| (scale.x(budget), scale.y(ratio)))
        .collect();
    let list: Vec<String> = at.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        text,
        "<polyline points=\"{}\" fill=\"none\" {style}/>",
        list.join(" ")
    );
    for (x, y) in at.iter().filter(|_| !fill.is_empty()) {
        let _ = write!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\" fill=\"{fill}\"/>"
        );
    }
    text.push('\n');
}

/// A policy has one colour in both variants.
fn colour<'a>(policy: &str, policies: &[&str]) -> &'a str {
    if policy.starts_with(SWAP) {
        return OWN_COLOUR;
    }
    let base = |policy: &str| policy.trim_end_matches("-paged").to_owned();
    let mut bases: Vec<String> = policies.iter().map(|policy| base(policy)).collect();
    bases.dedup();
    let index = bases.iter().position(|known| *known == base(policy));
    COLOURS[index.unwrap_or(0) % COLOURS.len()]
}

fn style(name: &str, policies: &[&str]) -> String {
    let colour = colour(name, policies);
    let (colour, width, dashes) = match name {
        BOUND => (BOUND_COLOUR, 1.2, "4 3"),
        SWAP => (colour, 1.8, ""),
        "vtensor-recompute" => (colour, 1.8, "6 3"),
        "vtensor-both" => (colour, 3.0, ""),
        _ if name.ends_with("-paged") => (colour, 1.3, ""),
        _ => (colour, 1.3, "2 2"),
    };
    let dashes = match dashes {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    };
    format!("stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cell::sample;

    #[test]
    fn each_panel_has_a_line_for_each_policy_and_the_bound() {
        let mut cells = vec![
            sample("a<b", "lru", Some(4.0)),
            sample("a<b", "vtensor", Some(2.0)),
            sample("c", "lru", None),
            sample("c", "vtensor", Some(1.0)),
        ];
        cells[1].bound_ratio = 1.5;
        let text = svg(&cells);
        assert_eq!(text.matches("<g ").count(), 2);
        assert_eq!(text.matches("<polyline").count(), 6);
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.contains("a&lt;b, d") && !text.contains("a<b"));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let open = text.matches("<g ").count() + text.matches("<text").count() + 1;
        let close = ["</g>", "</text>", "</svg>"].map(|end| text.matches(end).count());
        assert_eq!(open, close.iter().sum::<usize>());
    }

    #[test]
    fn slower_is_higher_and_more_memory_is_further_right() {
        let cell = sample("a", "lru", Some(4.0));
        let scale = Scale::of(&[&cell]);
        assert!(scale.y(4.0) < scale.y(2.0) && scale.y(2.0) < scale.y(1.0));
        assert!(scale.y(1.0) <= PANEL.1 && scale.y(4.0) >= MARGIN.1);
        assert!(scale.x(0.51) > scale.x(0.49));
    }
}
