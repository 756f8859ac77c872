//! The screen of the demo: one row per stage that an event passes, moving dots, latencies below.
//!
//! It draws a [`DemoTrail`] and reads nothing else, so that it can be tested with made-up figures. The distance of the
//! dots is logarithmic in the rate: one event per second and ten thousand must both be visible. The layout gives up
//! explanations before dots on a narrow terminal. Loop and keys are in `show`.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline, Wrap};

use super::figures::Figures;

pub(super) const TITLE: &str = "listwatch demo: a server, an informer and a controller in this process";
pub(super) const LEGEND: &str = "Writers set desired values in ConfigMaps. The store orders the writes, a watch delivers them, the informer caches them and calls \
     handlers, a worker reconciles each object by writing again. At the end, the records of all parts are compared with the store's log.";

/// Measurements kept for the plots.
const KEPT: usize = 240;
/// Cells between two dots at one event per second; more events come closer together.
const WIDEST_GAP: f64 = 24.0;

/// The last measurements, the newest at the end.
#[derive(Default)]
pub(super) struct DemoTrail {
    kept: VecDeque<Figures>,
    /// Shown before the first measurement.
    none: Figures,
}

impl DemoTrail {
    pub(super) fn last(&self) -> &Figures {
        self.kept.back().unwrap_or(&self.none)
    }

    /// Drops the oldest figures beyond the width of the plots.
    pub(super) fn push(&mut self, figures: Figures) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(figures);
    }
}

/// Title, colour and value of a plot.
type DemoPlot = (&'static str, Color, fn(&Figures) -> u64);

/// A stage that an event passes.
struct Station {
    name: &'static str,
    colour: Color,
    value: String,
    /// Events per second, which decides how close dots are.
    rate: f64,
    detail: String,
}

/// One screen: the stages of a change from top to bottom, then two plots.
pub(super) fn draw(frame: &mut Frame<'_>, trail: &DemoTrail, tick: u32, coloured: bool) {
    let figures = trail.last();
    let stations = stations(figures);
    let rows = u16::try_from(stations.len()).unwrap_or(u16::MAX).saturating_add(2);
    let [head, flow, plots] = Layout::vertical([
        Constraint::Length(heading_rows(frame.area().width)),
        Constraint::Length(rows),
        Constraint::Min(0),
    ])
    .areas(frame.area());
    frame.render_widget(heading(figures, coloured), head);
    let widths = widths(usize::from(flow.width.saturating_sub(2)), &stations);
    let lines: Vec<Line<'_>> = stations.iter().map(|station| station.line(widths, tick, coloured)).collect();
    let block = Block::bordered()
        .title(" the way of an event, from top to bottom ")
        .title_bottom(" ● events on their way   ↺ writes again: back to the store ");
    frame.render_widget(Paragraph::new(lines).block(block), flow);
    draw_plots(frame, plots, trail, coloured);
}

fn style(colour: Color, coloured: bool) -> Style {
    if coloured { Style::new().fg(colour) } else { Style::new() }
}

/// The first line: a title and the remaining time.
fn heading(figures: &Figures, coloured: bool) -> Paragraph<'static> {
    let state = if figures.left.is_zero() {
        "writers have ended; waiting for the rest".to_owned()
    } else {
        format!("{:.0} s left", figures.left.as_secs_f64().ceil())
    };
    let title = Line::from(vec![
        Span::styled(TITLE, style(Color::Cyan, coloured).add_modifier(Modifier::BOLD)),
        Span::raw(format!("   {state}   q quits")),
    ]);
    Paragraph::new(vec![title, Line::from(LEGEND)]).wrap(Wrap { trim: true })
}

/// Rows of the heading when its words are wrapped.
fn heading_rows(width: u16) -> u16 {
    let text = TITLE.len() + LEGEND.len() + 60;
    let rows = text.div_ceil(usize::from(width.max(20))) + 1;
    u16::try_from(rows).unwrap_or(u16::MAX).min(10)
}

/// The parts that a change passes, with what has passed them.
fn stations(figures: &Figures) -> [Station; 8] {
    let count = |count: super::figures::RatedCount| (grouped(count.total), count.per_second);
    let station = |name, colour, (value, rate), detail: String| Station { name, colour, value, rate, detail };
    let (p50, p99) = figures.latency;
    [
        station("writers", Color::Yellow, count(figures.written), "desired values written".into()),
        station("store", Color::Magenta, count(figures.revision), "revision: one order of all writes".into()),
        station("watch", Color::Blue, count(figures.delivered), watched(figures)),
        station(
            "cache",
            Color::Cyan,
            (grouped(figures.cached as u64), figures.delivered.per_second),
            format!("objects, at revision {}", figures.cached_at),
        ),
        station(
            "quick handler",
            Color::Green,
            count(figures.quick),
            format!("events, p50 {}, p99 {} after the write", time(p50), time(p99)),
        ),
        station(
            "slow handler",
            Color::Red,
            count(figures.slow),
            format!("events, {} ms each; delays no other handler", figures.slow_ms),
        ),
        station(
            "work queue",
            Color::Yellow,
            (grouped(figures.waiting as u64), figures.quick.per_second),
            format!("keys waiting, each once; {} in work", figures.in_work),
        ),
        station(
            "worker ↺",
            Color::Yellow,
            count(figures.reconciled),
            format!("objects reconciled, {} conflicts with newer values", figures.retried),
        ),
    ]
}

/// Cells of the name and of the count with its rate.
const NAME: usize = 14;
const NUMBERS: usize = 20;
/// Cells of a lane: dots must be seen to move, and explanations need the rest.
const LANE: std::ops::RangeInclusive<usize> = 10..=40;

/// The widths of lanes and explanations, the same in every row: explanations are cut before dots are given up.
fn widths(width: usize, stations: &[Station]) -> (usize, usize) {
    let rest = width.saturating_sub(NAME + NUMBERS);
    let longest = stations.iter().map(|station| station.detail.chars().count()).max().unwrap_or(0);
    let lane = rest.saturating_sub(longest + 1).clamp(*LANE.start(), *LANE.end()).min(rest);
    (lane, rest.saturating_sub(lane))
}

/// The explanation of the watch, with what deltas save once that is known.
fn watched(figures: &Figures) -> String {
    match figures.saved_percent {
        Some(saved) => format!("events; delta watch spares the informer {saved}% of the bytes"),
        None => "events delivered over one connection".to_owned(),
    }
}

impl Station {
    /// One station as a line: its name, moving dots at its rate, its figures and an explanation.
    fn line(&self, (lane, explanation): (usize, usize), tick: u32, coloured: bool) -> Line<'static> {
        let colour = style(self.colour, coloured);
        Line::from(vec![
            Span::styled(format!("{:<NAME$}", self.name), colour.add_modifier(Modifier::BOLD)),
            Span::styled(dots(lane, self.rate, tick), colour),
            Span::raw(format!("{:>9} {:>8}  ", self.value, per_second(self.rate))),
            Span::raw(cut(&self.detail, explanation)),
        ])
    }
}

/// The text, or as much of it as fits.
fn cut(text: &str, cells: usize) -> String {
    match text.chars().count() <= cells {
        true => text.to_owned(),
        false => text.chars().take(cells.saturating_sub(1)).chain(['…']).take(cells).collect(),
    }
}

/// A time, or a dash if nothing was measured.
fn time(time: Duration) -> String {
    if time.is_zero() { "–".to_owned() } else { format!("{time:.1?}") }
}

/// A lane of so many cells with dots that move one cell to the right with each tick. The more events, the closer they are.
fn dots(cells: usize, rate: f64, tick: u32) -> String {
    if rate < 0.5 {
        return " ".repeat(cells);
    }
    let gap = (WIDEST_GAP / rate.log2().max(1.0)).round().max(2.0) as usize;
    let shift = tick as usize % gap;
    (0..cells).map(|cell| if (cell + gap - shift).is_multiple_of(gap) { '●' } else { '·' }).collect()
}

fn per_second(rate: f64) -> String {
    format!("{:.0}/s", rate)
}

/// A number with a comma after each thousand.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Draws the two plots, of rate and latency, with as many points as the width has room for.
fn draw_plots(frame: &mut Frame<'_>, area: Rect, trail: &DemoTrail, coloured: bool) {
    let halves: [Rect; 2] = Layout::horizontal([Constraint::Ratio(1, 2); 2]).areas(area);
    let plots: [DemoPlot; 2] = [
        (" events delivered per second ", Color::Blue, |figures| figures.delivered.per_second as u64),
        (" p99 from write to handler, µs ", Color::Green, |figures| micros(figures.latency.1)),
    ];
    for (area, (title, colour, value)) in halves.into_iter().zip(plots) {
        let skip = trail.kept.len().saturating_sub(usize::from(area.width.saturating_sub(2)));
        let points: Vec<u64> = trail.kept.iter().skip(skip).map(value).collect();
        let highest = points.iter().max().copied().unwrap_or(0);
        let block = Block::bordered().title(title).title_bottom(format!(" highest {} ", grouped(highest)));
        let plot = Sparkline::default().data(points).style(style(colour, coloured)).block(block);
        frame.render_widget(plot, area);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::figures::RatedCount;
    use super::*;

    fn trail() -> DemoTrail {
        let mut trail = DemoTrail::default();
        let count = RatedCount { total: 12_345, per_second: 400.0 };
        trail.push(Figures { delivered: count, written: count, ..Figures::default() });
        trail
    }

    fn drawn(width: u16, height: u16, coloured: bool) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &trail(), 3, coloured)).unwrap();
        terminal
    }

    #[test]
    fn every_size_of_terminal_can_be_drawn_on() {
        for (width, height) in [(1, 1), (20, 5), (40, 12), (80, 24), (300, 100)] {
            drawn(width, height, true);
        }
    }

    #[test]
    fn a_usual_terminal_shows_title_stations_and_rates() {
        let text = drawn(100, 30, true).backend().to_string();
        for part in ["listwatch demo", "q quits", "writers", "worker ↺", "12,345", "400/s", "●"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn without_colour_every_cell_has_the_terminals_own() {
        let terminal = drawn(100, 30, false);
        assert!(terminal.backend().buffer().content().iter().all(|cell| cell.fg == Color::Reset));
    }

    #[test]
    fn dots_move_to_the_right_and_come_closer_with_more_events() {
        let at = |tick| dots(30, 4.0, tick).chars().position(|c| c == '●');
        assert_eq!((at(0), at(1)), (Some(0), Some(1)));
        let many = |rate| dots(30, rate, 0).matches('●').count();
        assert!(many(1000.0) > many(2.0) && many(0.0) == 0);
    }

    #[test]
    fn a_narrow_terminal_keeps_the_dots_and_cuts_explanations() {
        let stations = stations(&Figures::default());
        assert_eq!(widths(60, &stations), (10, 16));
        assert_eq!(widths(10, &stations), (0, 0));
        assert_eq!((cut("explained", 5), cut("fits", 5)), ("expl…".to_owned(), "fits".to_owned()));
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
