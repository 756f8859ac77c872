//! The width of a request: the seats that a list takes, by the memory it holds at once. All other requests take one.
//!
//! kube-apiserver estimates by the number and size of objects; the constants are the same. A list here is streamed
//! and never holds more than 1 MB, which bounds the estimate. The real bound per level is in [`super::gate`]: one
//! list may not take all seats of a small level.

use listwatch_wire::options::Query;

use crate::cache::Collection;

/// The bytes of a list per seat; kube-apiserver's.
const BYTES_PER_SEAT: u64 = 100_000;
/// A list is streamed, so that it holds no more than this at once.
const STREAMED_BYTES: u64 = 1_000_000;
/// The most seats of a list, before the bound of its level.
pub(super) const MOST: u32 = 10;

/// The seats of a request that reads a collection with these options.
#[doc(alias = "WorkEstimate")]
#[doc(alias = "listWorkEstimator")]
pub(crate) fn seats(query: &Query<'_>, collection: &Collection) -> u32 {
    let snapshot = collection.snapshot();
    let limit = query.text("limit").parse().ok().filter(|limit| *limit > 0);
    of_list(snapshot.len() as u64, snapshot.bytes() as u64, limit)
}

fn of_list(objects: u64, bytes: u64, limit: Option<u64>) -> u32 {
    let read = limit.unwrap_or(objects).min(objects);
    let held = (read * bytes.checked_div(objects).unwrap_or(0)).min(STREAMED_BYTES);
    u32::try_from(held.div_ceil(BYTES_PER_SEAT)).unwrap_or(MOST).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_as_wide_as_what_it_holds_at_once() {
        for (objects, bytes, limit, seats) in [
            (0, 0, None, 1),
            (10, 10_000, None, 1),
            (1000, 500_000, None, 5),
            (1000, 500_000, Some(200), 1),
            (1000, 500_000, Some(5000), 5),
            (100_000, 50_000_000, None, 10),
            (100_000, 50_000_000, Some(500), 3),
        ] {
            assert_eq!(of_list(objects, bytes, limit), seats, "{objects} {bytes} {limit:?}");
        }
    }
}
