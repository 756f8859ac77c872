//! The server's Table form of a list (`as=Table;v=v1;g=meta.k8s.io`), printed in columns.
//!
//! Columns and cells come from the server, so that custom resources print their own columns and output equals `kubectl
//! get`. Widths are fixed by the first page, because later pages are printed as they arrive: a longer cell on a later
//! page shifts its line, and no list is held in memory to prevent that.

use anyhow::Context;
use http::Request;
use http::header::ACCEPT;
use listwatch::pager::{PageCount, PagerOptions};
use serde::Deserialize;
use serde_json::Value;

use super::{Selection, ServerCollection, answer};
use crate::terminal::visible;

/// Servers without Tables for a resource answer with a plain list, which is an error here.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// One page of a Table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TablePage {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    column_definitions: Vec<TableColumn>,
    #[serde(default)]
    rows: Vec<TableRow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default, rename = "continue")]
    next: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Clone, Debug, Deserialize)]
struct TableColumn {
    name: String,
    #[serde(default)]
    priority: i32,
}

#[derive(Debug, Deserialize)]
struct TableRow {
    cells: Vec<Value>,
    #[serde(default)]
    object: RowObject,
}

/// The object of a row, of which only the namespace is printed.
#[derive(Debug, Default, Deserialize)]
struct RowObject {
    #[serde(default)]
    metadata: RowMeta,
}

#[derive(Debug, Default, Deserialize)]
struct RowMeta {
    #[serde(default)]
    namespace: String,
}

/// The columns to print, their widths fixed by the first page, so that a large list streams.
#[derive(Debug)]
pub(super) struct Layout {
    /// Index of the cell in a row, and heading.
    columns: Vec<(usize, String)>,
    /// True for a list of all namespaces. The namespace is not a cell of the table, so it is read from the row's
    /// metadata.
    with_namespace: bool,
    widths: Vec<usize>,
}

impl Layout {
    /// Chooses the columns and computes their widths from the first page. Later pages keep them, so that a list that
    /// is printed while it arrives stays aligned.
    fn new(page: &TablePage, wide: bool, with_namespace: bool) -> Self {
        let shown =
            page.column_definitions.iter().enumerate().filter(|(_, column)| wide || column.priority == 0);
        let columns =
            shown.map(|(index, column)| (index, visible(&column.name.to_uppercase()).into_owned())).collect();
        let mut layout = Self { columns, with_namespace, widths: Vec::new() };
        let lines = std::iter::once(layout.head()).chain(page.rows.iter().map(|row| layout.cells(row)));
        let mut widths = Vec::new();
        for line in lines {
            widths.resize(line.len().max(widths.len()), 0);
            for (width, cell) in widths.iter_mut().zip(&line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        layout.widths = widths;
        layout
    }

    fn head(&self) -> Vec<String> {
        let namespace = self.with_namespace.then(|| "NAMESPACE".to_owned());
        namespace.into_iter().chain(self.columns.iter().map(|(_, name)| name.clone())).collect()
    }

    /// Returns the texts of a row, with its namespace before them if rows of several are shown.
    fn cells(&self, row: &TableRow) -> Vec<String> {
        let namespace = self.with_namespace.then(|| visible(&row.object.metadata.namespace).into_owned());
        let cells =
            self.columns.iter().map(|(index, _)| row.cells.get(*index).map_or_else(String::new, cell));
        namespace.into_iter().chain(cells).collect()
    }

    /// Padded to the widths with three spaces in between, as kubectl does.
    fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&self.widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', (width + 3).saturating_sub(cell.chars().count())));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// `<none>` for null is kubectl's.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => visible(&text.replace(['\n', '\r'], " ")).into_owned(),
        Value::Null => "<none>".to_owned(),
        other => visible(&other.to_string()).into_owned(),
    }
}

/// The result of a whole list.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) rows: usize,
    pub(super) revision: String,
}

/// Prints a collection page by page through `print`, one line at a time.
///
/// The first page decides the layout; memory is that of one page.
///
/// # Errors
///
/// A page cannot be read, or the output cannot be written.
pub(super) async fn print(
    collection: &ServerCollection,
    selection: &Selection,
    wide: bool,
    page_size: u32,
    mut print: impl FnMut(&str) -> std::io::Result<()>,
) -> anyhow::Result<Listed> {
    let with_namespace = collection.found.namespaced && collection.namespace.is_none();
    let mut listed = Listed::default();
    let mut layout: Option<Layout> = None;
    let mut next = String::new();
    let mut pages = PageCount::new(PagerOptions::default().max_pages);
    loop {
        let page = fetch(collection, selection, page_size, &next).await?;
        let is_first = layout.is_none();
        let layout = layout.get_or_insert_with(|| Layout::new(&page, wide, with_namespace));
        if is_first && !page.rows.is_empty() {
            print(&layout.line(&layout.head()))?;
        }
        for row in &page.rows {
            print(&layout.line(&layout.cells(row)))?;
        }
        listed.rows += page.rows.len();
        listed.revision = page.metadata.resource_version;
        pages.continue_with(&next, &page.metadata.next)?;
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(listed);
        }
    }
}

/// Reads one page as a Table, which the server renders: columns are the server's knowledge.
async fn fetch(
    collection: &ServerCollection,
    selection: &Selection,
    page_size: u32,
    next: &str,
) -> anyhow::Result<TablePage> {
    let size = page_size.to_string();
    let mut query = selection.query();
    query.extend([("limit", size.as_str()), ("continue", next)]);
    let query: Vec<_> = query
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", escape(value)))
        .collect();
    let path = collection.found.path(collection.namespace.as_deref());
    let uri = format!("{path}?{}", query.join("&"));
    let request = Request::get(uri).header(ACCEPT, TABLE);
    answer::fetch(&collection.client, request).await.context("cannot list")
}

/// Escapes everything that has a meaning in a query.
fn escape(value: &str) -> String {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> TablePage {
        serde_json::from_value(serde_json::json!({
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Data", "priority": 0}, {"name": "Node", "priority": 1}],
            "rows": [
                {"cells": ["a-long-name", 1, "n1"], "object": {"metadata": {"namespace": "default"}}},
                {"cells": ["b", null, "n2"], "object": {"metadata": {"namespace": "x"}}},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let page = page();
        let layout = Layout::new(&page, false, false);
        assert_eq!(layout.line(&layout.head()), "NAME          DATA");
        let lines: Vec<_> = page.rows.iter().map(|row| layout.line(&layout.cells(row))).collect();
        assert_eq!(lines, ["a-long-name   1", "b             <none>"]);
    }

    #[test]
    fn wide_shows_columns_of_low_priority_and_all_namespaces_their_names() {
        let page = page();
        let layout = Layout::new(&page, true, true);
        assert_eq!(layout.line(&layout.head()), "NAMESPACE   NAME          DATA     NODE");
    }
}
