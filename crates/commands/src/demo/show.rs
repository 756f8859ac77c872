//! The loop that shows the demo: full screen on a terminal, a line per second elsewhere.
//!
//! Ten frames per second are drawn and two measurements taken. In raw mode Ctrl-C is a key, so it is handled here: it
//! ends the writing, and the demo still settles and gives its verdict. The terminal is restored on every path. Output
//! to a pipe that was closed ends the demo, too.

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

use super::figures::{Figures, Viewed};
use super::screen::{self, DemoTrail};
use crate::terminal::{is_coloured, print};

/// Ten frames per second: dots move, and drawing costs little.
const FRAME: Duration = Duration::from_millis(100);
/// Frames between two measurements: rates over half a second do not flicker.
const FRAMES_PER_FIGURES: u32 = 5;
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows figures until the demo is finished.
pub(super) async fn show(viewed: Viewed) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        return lines(&viewed).await;
    }
    let Ok(mut terminal) = ratatui::try_init() else { return lines(&viewed).await };
    let outcome = frames(&viewed, &mut terminal).await;
    ratatui::restore();
    outcome
}

/// Draws the screen until the demo ends or the user quits. Figures are taken every few frames only.
async fn frames(viewed: &Viewed, terminal: &mut ratatui::DefaultTerminal) -> anyhow::Result<()> {
    let coloured = is_coloured(&std::io::stdout());
    let mut trail = DemoTrail::default();
    for frame in 0_u32.. {
        if frame % FRAMES_PER_FIGURES == 0 {
            let figures = viewed.figures(trail.last()).await;
            trail.push(figures);
        }
        terminal.draw(|area| screen::draw(area, &trail, frame, coloured))?;
        if viewed.counters.is_finished() {
            return Ok(());
        }
        if tokio::task::spawn_blocking(quit_pressed).await?? {
            viewed.counters.end_writing();
        }
    }
    Ok(())
}

/// Waits one frame for a key that ends the demo. The terminal is in raw mode, so that Ctrl-C is a key, too.
fn quit_pressed() -> std::io::Result<bool> {
    if !event::poll(FRAME)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let interrupted = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(interrupted || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// Prints a line per second. A closed pipe ends the writing, and the demo.
async fn lines(viewed: &Viewed) -> anyhow::Result<()> {
    let result = print_lines(viewed).await;
    if result.is_err() {
        viewed.counters.end_writing();
    }
    result
}

/// Prints a line of figures now and then, for output that is not a terminal.
async fn print_lines(viewed: &Viewed) -> anyhow::Result<()> {
    print(format_args!("{}\n{}\n", screen::TITLE, screen::LEGEND))?;
    let mut figures = Figures::default();
    let mut due = tokio::time::Instant::now() + LINE_EVERY;
    while !viewed.counters.is_finished() {
        tokio::time::sleep(FRAME).await;
        if tokio::time::Instant::now() >= due {
            due += LINE_EVERY;
            figures = viewed.figures(&figures).await;
            print(figures.line())?;
        }
    }
    Ok(())
}
