#![no_main]
//! Queries: selectors and list options survive their own text.

use libfuzzer_sys::fuzz_target;
use listwatch_wire::options::{DeleteOptions, ListOptions, Query, WriteKind, WriteOptions};
use listwatch_wire::selector::{FieldSelector, LabelSelector};

fuzz_target!(|text: &str| {
    if let Ok(selector) = text.parse::<LabelSelector>() {
        let shown = selector.to_string();
        assert_eq!(shown.parse::<LabelSelector>().expect("own text").to_string(), shown);
    }
    if let Ok(selector) = text.parse::<FieldSelector>() {
        // Terms are sorted as they were spelled, and `==` is shown as `=`: only their set stays the same.
        let terms = |selector: &FieldSelector| {
            let mut terms: Vec<_> = selector.terms().iter().map(|term| format!("{term:?}")).collect();
            terms.sort();
            terms
        };
        let again: FieldSelector = selector.to_string().parse().expect("own text");
        assert_eq!(terms(&again), terms(&selector));
    }
    let query = Query::parse(text);
    if let Ok(options) = ListOptions::parse(&query) {
        let _ = (options.validate_list(), options.validate_watch());
        let shown = options.to_query();
        let again = ListOptions::parse(&Query::parse(&shown)).expect("own text");
        assert_eq!(again.to_query(), shown);
    }
    let _ = DeleteOptions::parse(&query).map(|options| options.check());
    let _ = WriteOptions::parse(&query).check(WriteKind::Create);
});
