//! The tables of `top`: columns, the width from which each is shown, and the cells of a row.
//!
//! On a narrow terminal the least important columns are left out first: the name and the lag stay.

use super::buckets::BucketQuantile;
use super::controllers::{InformerFigures, QueueLine};
use super::reading::{TopTrail, WatchLine};

/// A column: its head, its cells of width (0: what is left), and the width of a terminal that has room for it.
pub(super) type TopColumn = (&'static str, u16, u16);

/// A titled table whose rows are of one kind.
pub(super) struct TopTable {
    pub(super) title: String,
    pub(super) columns: &'static [TopColumn],
    pub(super) rows: Vec<TableLine>,
}

/// A row, and whether it is what one looks for first.
pub(super) struct TableLine {
    pub(super) cells: Vec<String>,
    pub(super) is_alarming: bool,
}

impl TopTable {
    /// The positions of the columns that a terminal of this width has room for.
    pub(super) fn shown(&self, width: u16) -> Vec<usize> {
        let fitting = self.columns.iter().enumerate().filter(|(_, (_, _, from))| width >= *from);
        fitting.map(|(at, _)| at).collect()
    }
}

/// All tables: watches, and informers and queues if a controller exports any.
pub(super) fn all(trail: &TopTrail) -> Vec<TopTable> {
    let controllers = &trail.last.controllers;
    let mut tables = vec![watches(trail)];
    if !controllers.informers.is_empty() {
        let rows = controllers.informers.iter().map(|(name, figures)| informer(name, figures));
        tables.push(TopTable { title: "informers".into(), columns: INFORMERS, rows: rows.collect() });
    }
    if !trail.queues.is_empty() {
        let rows = trail.queues.iter().map(queue);
        tables.push(TopTable { title: "work queues".into(), columns: QUEUES, rows: rows.collect() });
    }
    tables
}

const WATCHES: &[TopColumn] = &[
    ("USER", 0, 60),
    ("RESOURCE", 0, 0),
    ("NAMESPACE", 0, 80),
    ("BEHIND", 8, 50),
    ("LAG", 8, 0),
    ("EVENTS", 10, 70),
    ("SENT", 10, 90),
];

/// The table of watches, or their number if the server does not list them.
fn watches(trail: &TopTrail) -> TopTable {
    let listed = trail.last.watches.as_deref();
    let count = listed.map_or(trail.last.open_watches, |listed| listed.len() as f64);
    let noun = if count == 1.0 { "watch" } else { "watches" };
    let note = if listed.is_none() { ", which this server does not list" } else { "" };
    let rows = listed.unwrap_or_default().iter().map(watch).collect();
    TopTable { title: format!("{count} {noun}{note}"), columns: WATCHES, rows }
}

/// The row of a watch.
fn watch(watch: &WatchLine) -> TableLine {
    let resource = if watch.group.is_empty() {
        watch.resource.clone()
    } else {
        format!("{}.{}", watch.resource, watch.group)
    };
    let cells = vec![
        watch.user.clone(),
        resource,
        watch.namespace.clone().unwrap_or_else(|| "all".to_owned()),
        watch.lag_revisions.to_string(),
        format!("{:.1} s", watch.lag_seconds),
        watch.events.to_string(),
        format!("{} KiB", watch.bytes >> 10),
    ];
    TableLine { cells, is_alarming: watch.lag_seconds > 1.0 }
}

const INFORMERS: &[TopColumn] = &[
    ("INFORMER", 0, 0),
    ("SYNCED", 7, 40),
    ("OBJECTS", 9, 40),
    ("VERSION", 10, 80),
    ("LAG", 8, 0),
    ("LAST EVENT", 11, 60),
    ("LISTS", 6, 70),
    ("WATCHES", 8, 90),
    ("PROBLEMS", 9, 50),
];

/// The row of an informer.
fn informer(name: &str, figures: &InformerFigures) -> TableLine {
    let cells = vec![
        name.to_owned(),
        (if figures.synced { "yes" } else { "no" }).to_owned(),
        figures.objects.to_string(),
        figures.revision.to_string(),
        figures.lag().to_string(),
        format!("{:.1} s", figures.last_event_age),
        figures.lists.to_string(),
        figures.watches.to_string(),
        figures.problems.to_string(),
    ];
    TableLine { cells, is_alarming: !figures.synced }
}

/// Seconds that a key may be worked on before its row is marked: something hangs.
const LONG_WORK: f64 = 60.0;

const QUEUES: &[TopColumn] = &[
    ("QUEUE", 0, 0),
    ("DEPTH", 8, 0),
    ("DELAYED", 8, 70),
    ("ADDS/S", 8, 50),
    ("RETRIES/S", 10, 60),
    ("WAIT P99", 10, 80),
    ("WORK P99", 10, 40),
    ("OLDEST", 9, 90),
];

fn queue(queue: &QueueLine) -> TableLine {
    let cells = vec![
        queue.name.clone(),
        queue.depth.to_string(),
        queue.delayed.to_string(),
        format!("{:.1}", queue.adds),
        format!("{:.1}", queue.retries),
        BucketQuantile::text(queue.waited),
        BucketQuantile::text(queue.worked),
        format!("{:.1} s", queue.longest),
    ];
    TableLine { cells, is_alarming: queue.longest > LONG_WORK }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On 44 columns the names of the watched resources used to be left out before the bytes sent.
    #[test]
    fn a_narrow_terminal_keeps_the_name_and_the_lag() {
        for columns in [WATCHES, INFORMERS, QUEUES] {
            let table = TopTable { title: String::new(), columns, rows: Vec::new() };
            let heads = |width| table.shown(width).iter().map(|at| columns[*at].0).collect::<Vec<_>>();
            assert_eq!(heads(20).len(), 2, "{:?}", heads(20));
            assert_eq!(heads(100).len(), columns.len());
            for width in 20..120_u16 {
                let taken: u16 = table.shown(width).iter().map(|at| columns[*at].1 + 1).sum();
                assert!(taken + 8 <= width, "{width} columns: {:?}", heads(width));
            }
        }
    }
}
