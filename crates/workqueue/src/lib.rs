//! Deduplicating, delaying, rate-limited and fair work queues.
