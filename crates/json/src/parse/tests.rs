use super::*;

fn error(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn syntax_errors_read_as_go() {
    for (text, expected) in [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("not json", "invalid character 'o' in literal null (expecting 'u')"),
        (r#"{"a":{},}"#, "invalid character '}' looking for beginning of object key string"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ("{} {}", "invalid character '{' after top-level value"),
        ("[1 2]", "invalid character '2' after array element"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
        ("[01]", "invalid character '1' after array element"),
        ("[-]", "invalid character ']' in numeric literal"),
        ("[1.]", "invalid character ']' after decimal point in numeric literal"),
        ("[1e]", "invalid character ']' in exponent of numeric literal"),
        ("\"\n\"", "invalid character '\\n' in string literal"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u12g4""#, "invalid character 'g' in \\u hexadecimal character escape"),
        ("*", "invalid character '*' looking for beginning of value"),
        (r#""abc"#, "unexpected end of JSON input"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn duplicates_are_reported_once_with_their_paths() {
    let text = r#"{"a":[{"b":1,"b":2},{"b":1,"b":2,"b":3}],"a":0,"c":{"d":{"e":1,"e":1}}}"#;
    assert_eq!(parse(text.as_bytes()).unwrap().duplicates, ["a[0].b", "a[1].b", "a", "c.d.e"]);
}

/// A hundred paths of a megabyte each were kept, and one was written for each of many repetitions.
#[test]
fn paths_of_duplicates_are_bounded_in_bytes() {
    let key = "k".repeat(500_000);
    let different: String = (0..200).map(|n| format!(r#""a{n}":1,"a{n}":1,"#)).collect();
    let repeated = r#""a":1,"#.repeat(100_000);
    let began = std::time::Instant::now();
    for inside in [different, repeated] {
        let text = format!(r#"{{"{key}":{{{inside}"z":1}}}}"#);
        assert_eq!(parse(text.as_bytes()).unwrap().duplicates.len(), 1);
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn containers_under_a_duplicate_key_are_merged_where_go_does() {
    use crate::json;
    let text = br#"{"a":{"b":1,"c":[{"d":1,"e":1},2]},"a":{"b":2,"c":[{"d":2}]},"f":{"g":1},"f":null}"#;
    let expected = json!({"a": {"b": 2, "c": [{"d": 2, "e": 1}]}, "f": null});
    assert_eq!(parse_merged(text).unwrap().value, expected);
    assert_eq!(parse(text).unwrap().value, json!({"a": {"b": 2, "c": [{"d": 2}]}, "f": null}));
}

#[test]
fn merging_costs_no_more_than_what_is_merged() {
    let large: Vec<String> = (0..50_000).map(|n| format!(r#""k{n}":1"#)).collect();
    let more = r#","a":[{"x":1}]"#.repeat(20_000);
    let text = format!(r#"{{"a":[{{{}}}]{more}}}"#, large.join(","));
    let began = std::time::Instant::now();
    let parsed = parse_merged(text.as_bytes()).unwrap();
    assert_eq!(parsed.value["a"][0].as_object().map(crate::Map::len), Some(50_001));
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn the_list_of_duplicate_keys_is_bounded() {
    let text = format!("[{}]", vec![r#"{"a":1,"a":2}"#; 5000].join(","));
    assert_eq!(parse(text.as_bytes()).unwrap().duplicates.len(), MAX_DUPLICATES);
}

#[test]
fn nesting_is_bounded() {
    assert!(parse(("[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH)).as_bytes()).is_ok());
    assert_eq!(parse("[".repeat(1_000_000).as_bytes()), Err(ParseError::TooDeep));
    assert_eq!(parse(r#"{"a":"#.repeat(1_000_000).as_bytes()), Err(ParseError::TooDeep));
}

#[test]
fn numbers_keep_integers_whole() {
    let parsed = |text: &str| parse(text.as_bytes()).unwrap().value;
    assert_eq!(parsed("18446744073709551615"), Value::from(u64::MAX));
    assert_eq!(parsed("-9223372036854775808"), Value::from(i64::MIN));
    assert_eq!(parsed("-0"), Value::from(0));
    assert_eq!(parsed("1.5e3"), Value::from(1500.0));
    assert!(parsed(&"9".repeat(300)).is_f64());
    let huge = "9".repeat(400);
    assert_eq!(parse(huge.as_bytes()), Err(ParseError::NumberOutOfRange(huge)));
    assert!(parse(b"1e999").is_err());
}

#[test]
fn strings_may_hold_anything_and_what_is_no_utf8_is_replaced() {
    let broken = parse(b"{\"a\xc3\":\"x\xff\xe2\x82y\\n\xfe\"}").unwrap().value;
    assert_eq!(broken["a\u{fffd}"], "x\u{fffd}\u{fffd}\u{fffd}y\n\u{fffd}");
    assert_eq!(
        parse(b"\xff"),
        Err(ParseError::InvalidCharacter { byte: 0xff, context: "looking for beginning of value" })
    );
    let escapes = r#""\"\\\/\b\f\n\r\té\ud83d\ude00\ud800x\udc00\ud800\u0041""#;
    let expected = "\"\\/\u{8}\u{c}\n\r\té😀\u{fffd}x\u{fffd}\u{fffd}A";
    assert_eq!(parse(escapes.as_bytes()).unwrap().value, Value::from(expected));
}
