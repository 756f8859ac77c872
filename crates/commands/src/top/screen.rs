//! Drawing of a [`TopTrail`]: full screen with plots, or as text for pipes and tests.
//!
//! Watches are sorted by lag, and one that is more than a second behind is red: a slow client is what one looks for
//! first. A failed reading keeps the last figures on screen with the reason, since the server may just be restarting.
//! Figures are computed in `reading`, rows in `tables`.

use std::fmt::Write;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, Wrap};

use super::buckets::BucketQuantile;
use super::reading::{Rates, TopTrail};
use super::tables::{self, TopTable};
use crate::terminal::visible;

/// Title, colour and value of a plot.
type TopPlot = (&'static str, Color, fn(&Rates) -> f64);

const PLOTS: [TopPlot; 3] = [
    (" requests/s ", Color::Cyan, |rates| rates.requests),
    (" watch events/s ", Color::Green, |rates| rates.events),
    (" p99 µs ", Color::Yellow, |rates| rates.p99.map_or(0.0, |p99| p99.seconds) * 1e6),
];

/// The plots of controllers, if any exports queues.
const QUEUE_PLOTS: [TopPlot; 2] = [
    (" queue depth ", Color::Magenta, |rates| rates.depth),
    (" work p99 µs ", Color::Yellow, |rates| rates.worked.map_or(0.0, |p99| p99.seconds) * 1e6),
];

/// As many tables as fit, and plots if there is room.
pub(super) fn draw(frame: &mut Frame<'_>, trail: &TopTrail, coloured: bool) {
    let tables = tables::all(trail);
    let width = frame.area().width;
    let mut heights = vec![Constraint::Length(summary_rows(trail, width)), Constraint::Length(6)];
    heights.extend(tables.iter().enumerate().map(|(at, table)| match at {
        0 => Constraint::Min(4),
        _ => Constraint::Max(u16::try_from(table.rows.len()).unwrap_or(u16::MAX).saturating_add(3)),
    }));
    let areas = Layout::vertical(heights).split(frame.area());
    let mut areas = areas.iter().copied();
    if let Some(area) = areas.next() {
        frame.render_widget(summary(trail, coloured), area);
    }
    if let Some(area) = areas.next() {
        draw_plots(frame, area, trail, coloured);
    }
    for (table, area) in tables.iter().zip(areas) {
        frame.render_widget(widget(table, area.width, coloured), area);
    }
}

/// The lines below the title: figures, then rates by verb or the reason why figures are old.
fn summary_lines(trail: &TopTrail) -> [String; 2] {
    let rates = trail.now();
    let problem = trail.problem.as_ref().or(trail.last.controllers.problems.first());
    let note = problem.map_or_else(|| by_verb(&rates), |problem| format!("trying again: {problem}"));
    [figures(trail, &rates), note]
}

/// Two lines: figures, and a note if what is shown is old.
fn summary(trail: &TopTrail, coloured: bool) -> Paragraph<'static> {
    let is_old = trail.problem.is_some() || !trail.last.controllers.problems.is_empty();
    let [figures, note] = summary_lines(trail);
    let note = if is_old && coloured { Line::from(note).red() } else { Line::from(note) };
    Paragraph::new(vec![Line::from(figures), note])
        .wrap(Wrap { trim: true })
        .block(Block::bordered().title(" listwatch top ").title_bottom(" q quits "))
}

/// Rows of the summary with its frame when its words are wrapped.
fn summary_rows(trail: &TopTrail, width: u16) -> u16 {
    // Breaking between words leaves some cells of a line empty.
    let room = usize::from(width).saturating_sub(10).max(10);
    let rows: usize =
        summary_lines(trail).iter().map(|line| line.chars().count().div_ceil(room).max(1)).sum();
    u16::try_from(rows + 2).unwrap_or(u16::MAX).min(8)
}

/// The line of figures about the server.
fn figures(trail: &TopTrail, rates: &Rates) -> String {
    let position = trail.last.position.map(|position| format!("revision {position}   "));
    format!(
        "{}requests {:.0}/s   failed {:.1}/s   p50 {}   p99 {}   watch events {:.0}/s   memory {:.0} MiB",
        position.unwrap_or_default(),
        rates.requests,
        rates.failed,
        BucketQuantile::text(rates.p50),
        BucketQuantile::text(rates.p99),
        rates.events,
        trail.last.memory / f64::from(1 << 20),
    )
}

/// Only verbs that are in use.
fn by_verb(rates: &Rates) -> String {
    let busy = rates.by_verb.iter().filter(|(_, rate)| *rate > 0.0);
    busy.map(|(verb, rate)| format!("{verb} {rate:.0}/s")).collect::<Vec<_>>().join("   ")
}

/// Draws the plots side by side; those of queues only if there are queues.
fn draw_plots(frame: &mut Frame<'_>, area: Rect, trail: &TopTrail, coloured: bool) {
    let more: &[TopPlot] = if trail.queues.is_empty() { &[] } else { &QUEUE_PLOTS };
    let plots: Vec<_> = PLOTS.iter().chain(more).collect();
    let share = Constraint::Ratio(1, u32::try_from(plots.len()).unwrap_or(1));
    let areas = Layout::horizontal(vec![share; plots.len()]).split(area);
    for (area, (title, colour, value)) in areas.iter().copied().zip(plots) {
        let width = usize::from(area.width.saturating_sub(2));
        let skip = trail.rates.len().saturating_sub(width);
        let points: Vec<u64> = trail.rates.iter().skip(skip).map(|rates| value(rates) as u64).collect();
        let style = if coloured { Style::new().fg(*colour) } else { Style::new() };
        let plot = Sparkline::default().data(points).style(style);
        frame.render_widget(plot.block(Block::bordered().title(*title)), area);
    }
}

/// Only the columns that fit the width.
fn widget(table: &TopTable, width: u16, coloured: bool) -> Table<'static> {
    let shown = table.shown(width);
    let columns = shown.iter().filter_map(|at| table.columns.get(*at));
    let widths = columns.clone().map(|(_, cells, _)| match cells {
        0 => Constraint::Fill(1),
        cells => Constraint::Length(*cells),
    });
    let rows = table.rows.iter().map(|line| {
        let cells = shown.iter().filter_map(|at| line.cells.get(*at));
        let row = Row::new(cells.map(|cell| Cell::from(cell.clone())).collect::<Vec<_>>());
        if line.is_alarming && coloured { row.red() } else { row }
    });
    let heads = columns.clone().map(|(head, _, _)| *head).collect::<Vec<_>>();
    Table::new(rows, widths.collect::<Vec<_>>())
        .header(Row::new(heads).bold())
        .block(Block::bordered().title(format!(" {} ", table.title)))
}

/// Returns the same figures as plain text. The names of users, kinds and queues are those of a server and its clients, so
/// controls in them are made visible, as the full screen does.
pub(super) fn text(trail: &TopTrail) -> String {
    let mut text = summary_lines(trail).map(|line| visible(&line).into_owned()).join("\n") + "\n";
    for table in tables::all(trail) {
        let heads: Vec<_> = table.columns.iter().map(|(head, _, _)| *head).collect();
        let _ = writeln!(text, "\n{}\n{}", table.title, heads.join("\t"));
        for line in &table.rows {
            let cells: Vec<_> = line.cells.iter().map(|cell| visible(cell)).collect();
            let _ = writeln!(text, "{}", cells.join("\t"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::reading::TopReading;
    use super::*;

    const WATCHES: &str = r#"{"position": 42, "watches": [{"user": "alice", "resource": "pods", "namespace": null,
        "lagRevisions": 3, "lagSeconds": 2.5, "events": 10, "bytes": 4096}]}"#;
    const CONTROLLER: &str = "workqueue_depth{name=\"greetings\"} 7\nlistwatch_informer_objects{informer=\"maps\"} 52\n\
        listwatch_informer_synced{informer=\"maps\"} 1\n";

    fn trail() -> TopTrail {
        let begin = Instant::now();
        let reading = |at| {
            let mut reading = TopReading::new(at, "", Some(WATCHES)).unwrap();
            reading.controllers.add("", CONTROLLER);
            reading
        };
        let mut trail = TopTrail::new(reading(begin));
        trail.push(reading(begin + Duration::from_secs(1)));
        trail
    }

    fn drawn(width: u16, height: u16, coloured: bool) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &trail(), coloured)).unwrap();
        terminal
    }

    #[test]
    fn every_size_of_terminal_can_be_drawn_on() {
        for (width, height) in [(1, 1), (20, 5), (44, 20), (80, 24), (300, 100)] {
            drawn(width, height, true);
        }
    }

    #[test]
    fn a_usual_terminal_shows_watches_informers_and_queues() {
        let screen = drawn(100, 30, true).backend().to_string();
        for part in ["memory 0 MiB", "1 watch ", "alice", "2.5 s", "maps", "52", "greetings", "queue depth"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
    }

    #[test]
    fn without_colour_every_cell_has_the_terminals_own() {
        let coloured = |with| {
            let terminal = drawn(100, 30, with);
            terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset)
        };
        assert!(coloured(true) && !coloured(false));
    }

    #[test]
    fn the_text_form_names_each_watch_informer_and_queue() {
        let text = text(&trail());
        for line in ["revision 42", "alice\tpods\tall\t3\t2.5 s", "maps\tyes\t52", "greetings\t7\t0"] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    /// The user and the namespace of a watch are chosen by any client, and an administrator prints them.
    #[test]
    fn the_text_form_has_no_controls_of_a_terminal() {
        let watches = WATCHES.replace("alice", r"ali\u001b[2Jce\u202e").replace("null", r#""a\tb\nc""#);
        let mut trail = TopTrail::new(TopReading::new(Instant::now(), "", Some(&watches)).unwrap());
        trail.push(TopReading::new(Instant::now() + Duration::from_secs(1), "", Some(&watches)).unwrap());
        trail.fail("no\x07 answer".to_owned());
        let text = text(&trail);
        assert!(
            text.contains("ali^[[2Jce\u{fffd}\tpods\ta^Ib^Jc\t") && text.contains("no^G answer"),
            "{text:?}"
        );
    }
}
