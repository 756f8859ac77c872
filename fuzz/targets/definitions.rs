#![no_main]
//! Custom resource definitions and objects under them.

use libfuzzer_sys::fuzz_target;
use listwatch_custom::{Definition, fill, prune, validate, validate_create};
use listwatch_wire::json;

fuzz_target!(|input: &[u8]| {
    let (definition, object) = listwatch_fuzz::two(input);
    let (Ok(definition), Ok(object)) = (json::parse(definition), json::parse(object)) else { return };
    // Only what would be accepted is ever served.
    if !validate_create(&definition.value).is_empty() {
        return;
    }
    let Some(definition) = Definition::read(&definition.value) else { return };
    for version in &definition.versions {
        let mut object = object.value.clone();
        prune(&version.schema, &mut object);
        assert!(prune(&version.schema, &mut object).is_empty());
        fill(&version.schema, &mut object);
        let once = object.clone();
        fill(&version.schema, &mut object);
        assert_eq!(object, once);
        let _ = validate(&version.schema, &object, None);
        let _ = version.rules.evaluate(&object, None);
    }
});
