//! [`RowBudget`]: bounds on the work and the text of one row of a table.
//!
//! Recursive descents, filters and unions multiply the parts of an object, a path may have thousands of them, and a definition
//! thousands of columns. kube-apiserver has no such bound and works until its request times out.

/// The most values that the paths of all columns may lead to, all together.
const MAX_VALUES: usize = 200_000;

/// The most bytes of text in the cells, all together: columns may show the same large part of an object many times.
const MAX_TEXT: usize = 8 << 20;

/// The bytes of a text that count as one value where texts are compared.
const BYTES_PER_VALUE: usize = 64;

/// An evaluation that failed, which makes the cell empty.
pub(super) struct NoCell;

/// The values and the text that a row may still have.
pub(super) struct RowBudget {
    values: usize,
    text: usize,
}

impl Default for RowBudget {
    fn default() -> Self {
        Self { values: MAX_VALUES, text: MAX_TEXT }
    }
}

impl RowBudget {
    /// Counts values. Once there were too many, every further one fails, too.
    pub(super) fn spend(&mut self, values: usize) -> Result<(), NoCell> {
        let left = self.values.checked_sub(values);
        self.values = left.unwrap_or(0);
        left.map(drop).ok_or(NoCell)
    }

    /// Counts a text that is compared.
    pub(super) fn spend_text(&mut self, text: &str) -> Result<(), NoCell> {
        self.spend(text.len() / BYTES_PER_VALUE)
    }

    /// Counts the text of a cell, which is made only if there is room for any. Once one did not fit, no further one does.
    pub(super) fn shown(&mut self, text: impl FnOnce() -> String) -> Option<String> {
        let text = (self.text > 0).then(text)?;
        let left = self.text.checked_sub(text.len());
        self.text = left.unwrap_or(0);
        left.map(|_| text)
    }
}
