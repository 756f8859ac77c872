//! Named formats of Kubernetes: `format.dns1123Label().validate(text)` and the like.
//!
//! `validate` returns an optional list of messages, which are those of apimachinery's validation package, word for
//! word. The size of the regular expression that each format stands for is part of the table, because the cost of a
//! validation is computed from it although no regular expression runs. The `format` keyword of schemas is something
//! else, in `listwatch-custom`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use listwatch_wire::names::{label_errors as dns_label, subdomain_errors as dns_subdomain};

use super::{Evaluated, Native, no_overload, time, url};
use crate::meter::Meter;
use crate::value::{Str, Value};

/// A named format for strings.
///
/// A value of the language is a reference into the table, so comparing and copying one costs nothing.
#[derive(Debug)]
pub struct Format {
    /// The name by which expressions find it.
    key: &'static str,
    pub(crate) name: &'static str,
    /// The length of a pattern that costs as much.
    pub(crate) regex_size: u64,
    validate: fn(&str) -> Vec<String>,
}

/// Searched linearly; a constant format is found once, when `format.named` is evaluated.
#[rustfmt::skip]
static FORMATS: [Format; 13] = [
    Format { key: "dns1123Label", name: "DNS1123Label", regex_size: 30, validate: dns_label },
    Format { key: "dns1123Subdomain", name: "DNS1123Subdomain", regex_size: 60, validate: dns_subdomain },
    Format { key: "dns1035Label", name: "DNS1035Label", regex_size: 30, validate: dns_1035_label },
    Format { key: "qualifiedName", name: "QualifiedName", regex_size: 60, validate: qualified_name },
    Format { key: "dns1123LabelPrefix", name: "DNS1123LabelPrefix", regex_size: 30, validate: |text| dns_label(&masked(text)) },
    Format { key: "dns1123SubdomainPrefix", name: "DNS1123SubdomainPrefix", regex_size: 60, validate: |text| dns_subdomain(&masked(text)) },
    Format { key: "dns1035LabelPrefix", name: "DNS1035LabelPrefix", regex_size: 30, validate: |text| dns_1035_label(&masked(text)) },
    Format { key: "labelValue", name: "LabelValue", regex_size: 40, validate: label_value },
    Format { key: "uri", name: "URI", regex_size: 1100, validate: uri },
    Format { key: "uuid", name: "uuid", regex_size: 83, validate: uuid },
    Format { key: "byte", name: "byte", regex_size: 74, validate: byte },
    Format { key: "date", name: "date", regex_size: 120, validate: |text| one(time::parse_date(text).is_some(), "invalid date") },
    Format { key: "datetime", name: "datetime", regex_size: 120, validate: |text| one(time::parse_timestamp(text).is_some(), "invalid datetime") },
];

/// The implementation of a function of this library.
pub(super) fn native(name: &str) -> Option<Native> {
    // A function has no state, so that each constant is a function of its own.
    Some(match name {
        "format.named" => |_, args| match args {
            [Value::String(name)] => {
                let found = FORMATS.iter().find(|format| format.key == &**name);
                Ok(found.map_or(Value::Optional(None), |format| Value::some(Value::Format(format))))
            }
            _ => Err(no_overload("format.named", args)),
        },
        "validate" => validate,
        "format.dns1123Label" => |_, _| named("dns1123Label"),
        "format.dns1123Subdomain" => |_, _| named("dns1123Subdomain"),
        "format.dns1035Label" => |_, _| named("dns1035Label"),
        "format.qualifiedName" => |_, _| named("qualifiedName"),
        "format.dns1123LabelPrefix" => |_, _| named("dns1123LabelPrefix"),
        "format.dns1123SubdomainPrefix" => |_, _| named("dns1123SubdomainPrefix"),
        "format.dns1035LabelPrefix" => |_, _| named("dns1035LabelPrefix"),
        "format.labelValue" => |_, _| named("labelValue"),
        "format.uri" => |_, _| named("uri"),
        "format.uuid" => |_, _| named("uuid"),
        "format.byte" => |_, _| named("byte"),
        "format.date" => |_, _| named("date"),
        "format.datetime" => |_, _| named("datetime"),
        _ => return None,
    })
}

/// A format of the table as a value.
fn named<'a>(key: &str) -> Evaluated<'a> {
    FORMATS.iter().find(|format| format.key == key).map(Value::Format).ok_or_else(|| no_overload(key, &[]))
}

/// Linear in the text. The list of messages is that of apimachinery's `validation` package, where there can be more
/// than one.
fn validate<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Format(format), Value::String(text)] = args else {
        return Err(no_overload("validate", args));
    };
    meter.work(text.len() as u64)?;
    let errors = (format.validate)(text);
    if errors.is_empty() {
        return Ok(Value::Optional(None));
    }
    let errors = errors.into_iter().map(|error| Value::String(Str::from(error))).collect();
    Ok(Value::some(Value::list(errors)))
}

/// No error, or the one.
fn one(valid: bool, error: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![error.to_owned()] }
}

/// A prefix with its trailing dash replaced, as names are generated from it.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if text.len() > 1 => {
            let end = rest.len() - 1;
            rest.get(..end).map_or_else(|| text.to_owned(), |head| format!("{head}a"))
        }
        _ => text.to_owned(),
    }
}

/// Adds the error of a text that is too long. It counts bytes; the message names them characters, as apimachinery does.
fn too_long(text: &str, most: usize, errors: &mut Vec<String>) {
    if text.len() > most {
        errors.push(format!("must be no more than {most} characters"));
    }
}

/// Labels of RFC 1123 and RFC 1035 differ in their first character.
fn is_label(text: &str, first: fn(char) -> bool) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.starts_with(first) && !text.ends_with('-') && text.chars().all(inner)
}

/// The form of Service names of old: a label that begins with a letter.
fn dns_1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    too_long(text, 63, &mut errors);
    if !is_label(text, |c| c.is_ascii_lowercase()) {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
             and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// The part of a qualified name behind the slash, and a label value.
fn is_name_part(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Validates a qualified name, such as a label key, with the messages of apimachinery.
fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix), *name),
        _ => {
            let start = NAME_PART.replace("must consist", "a qualified name must consist");
            let start = start.trim_end_matches(')');
            return vec![format!(
                "{start}) with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    let mut errors = Vec::new();
    match prefix {
        Some("") => errors.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            errors.extend(dns_subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
        }
        None => {}
    }
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_name_part(name) {
        errors.push(format!("name part {NAME_PART}"));
    }
    errors
}

/// The value of a label, which may be empty.
fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    too_long(text, 63, &mut errors);
    if !text.is_empty() && !is_name_part(text) {
        errors.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
             end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    errors
}

/// Absolute references, or paths; the parser is that of the function `url`.
fn uri(text: &str) -> Vec<String> {
    url::Url::parse(text).err().into_iter().collect()
}

/// Dashes are optional, but only allowed between the five groups.
fn uuid(text: &str) -> Vec<String> {
    let mut rest = Some(text);
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        let group_of = |rest: &'_ str| -> Option<usize> {
            let dash = usize::from(group > 0 && rest.starts_with('-'));
            let digits = rest.get(dash..dash + length)?;
            digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(dash + length)
        };
        rest = rest.and_then(|rest| rest.get(group_of(rest)?..));
    }
    one(rest == Some(""), "does not match the UUID format")
}

/// Base64 with padding. Empty text is none.
fn byte(text: &str) -> Vec<String> {
    one(!text.is_empty() && STANDARD.decode(text).is_ok(), "invalid base64")
}
