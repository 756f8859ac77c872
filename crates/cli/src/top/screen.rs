//! Drawing of a [`TopTrail`]: full screen with plots, or as text for pipes and tests.
//!
//! Watches are sorted by lag, and one that is more than a second behind is red: a slow client is what one looks for
//! first. A failed reading keeps the last figures on screen with the reason, since the server may just be restarting.
//! Figures are computed in `reading`.

use std::fmt::Write;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};

use super::reading::{Rates, TopTrail, WatchLine};

const HEADS: [&str; 7] = ["USER", "RESOURCE", "NAMESPACE", "BEHIND", "LAG", "EVENTS", "SENT"];

/// Title, colour and value of a plot.
type TopPlot = (&'static str, Color, fn(&Rates) -> f64);

pub(super) fn draw(frame: &mut Frame<'_>, trail: &TopTrail) {
    let [head, plots, watches] =
        Layout::vertical([Constraint::Length(4), Constraint::Length(6), Constraint::Min(4)])
            .areas(frame.area());
    frame.render_widget(summary(trail), head);
    draw_plots(frame, plots, trail);
    frame.render_widget(watch_table(trail), watches);
}

fn summary(trail: &TopTrail) -> Paragraph<'static> {
    let rates = trail.now();
    let note = match &trail.problem {
        Some(problem) => Line::from(format!("reconnecting: {problem}")).red(),
        None => Line::from(by_verb(&rates)),
    };
    Paragraph::new(vec![Line::from(figures(trail, &rates)), note])
        .block(Block::bordered().title(" listwatch top ").title_bottom(" q quits "))
}

fn figures(trail: &TopTrail, rates: &Rates) -> String {
    format!(
        "revision {}   requests {:.0}/s   failed {:.1}/s   p50 {}   p99 {}   watch events {:.0}/s   memory {:.0} MiB",
        trail.last.position,
        rates.requests,
        rates.failed,
        millis(rates.p50),
        millis(rates.p99),
        rates.events,
        trail.last.memory / f64::from(1 << 20),
    )
}

fn by_verb(rates: &Rates) -> String {
    let busy = rates.by_verb.iter().filter(|(_, rate)| *rate > 0.0);
    busy.map(|(verb, rate)| format!("{verb} {rate:.0}/s")).collect::<Vec<_>>().join("   ")
}

fn millis(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{:.1} ms", seconds * 1e3))
}

fn draw_plots(frame: &mut Frame<'_>, area: Rect, trail: &TopTrail) {
    let areas: [Rect; 3] = Layout::horizontal([Constraint::Ratio(1, 3); 3]).areas(area);
    let plots: [TopPlot; 3] = [
        (" requests/s ", Color::Cyan, |rates| rates.requests),
        (" watch events/s ", Color::Green, |rates| rates.events),
        (" p99 µs ", Color::Yellow, |rates| rates.p99.unwrap_or(0.0) * 1e6),
    ];
    for (area, (title, colour, value)) in areas.into_iter().zip(plots) {
        let width = usize::from(area.width.saturating_sub(2));
        let skip = trail.rates.len().saturating_sub(width);
        let points: Vec<u64> = trail.rates.iter().skip(skip).map(|rates| value(rates) as u64).collect();
        let plot = Sparkline::default().data(points).style(Style::new().fg(colour));
        frame.render_widget(plot.block(Block::bordered().title(title)), area);
    }
}

fn watch_table(trail: &TopTrail) -> Table<'static> {
    let rows = trail.last.watches.iter().map(|watch| {
        let row = Row::new(cells(watch).map(Cell::from));
        if watch.lag_seconds > 1.0 { row.red() } else { row }
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let title = format!(" {} watches ", trail.last.watches.len());
    Table::new(rows, widths).header(Row::new(HEADS).bold()).block(Block::bordered().title(title))
}

fn cells(watch: &WatchLine) -> [String; 7] {
    let resource = if watch.group.is_empty() {
        watch.resource.clone()
    } else {
        format!("{}.{}", watch.resource, watch.group)
    };
    [
        watch.user.clone(),
        resource,
        watch.namespace.clone().unwrap_or_else(|| "all".to_owned()),
        watch.lag_revisions.to_string(),
        format!("{:.1} s", watch.lag_seconds),
        watch.events.to_string(),
        format!("{} KiB", watch.bytes >> 10),
    ]
}

/// Returns the same figures as plain text.
pub(super) fn text(trail: &TopTrail) -> String {
    let rates = trail.now();
    let mut text = format!("{}\n{}\n", figures(trail, &rates), by_verb(&rates));
    let _ = writeln!(text, "{}", HEADS.join("\t"));
    for watch in &trail.last.watches {
        let _ = writeln!(text, "{}", cells(watch).join("\t"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::reading::TopReading;
    use super::*;

    fn trail() -> TopTrail {
        let watches = r#"{"position": 42, "watches": [{"user": "alice", "resource": "pods", "namespace": null,
            "lagRevisions": 3, "lagSeconds": 2.5, "events": 10, "bytes": 4096}]}"#;
        TopTrail::new(TopReading::new(Instant::now(), "", watches).unwrap())
    }

    #[test]
    fn every_size_of_terminal_can_be_drawn_on() {
        for (width, height) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &trail())).unwrap();
        }
    }

    #[test]
    fn the_text_form_names_each_watch() {
        let text = text(&trail());
        assert!(text.contains("revision 42") && text.contains("alice\tpods\tall\t3\t2.5 s"), "{text}");
    }
}
