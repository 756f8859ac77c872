//! Tests of negotiation: the form that is chosen for an `Accept` header.

use super::*;

fn form(accept: &str, subject: ResponseSubject) -> String {
    form_of(accept, subject, true)
}

fn form_of(accept: &str, subject: ResponseSubject, typed: bool) -> String {
    match negotiate(Some(accept), subject, typed) {
        None => "406".to_owned(),
        Some(form) => format!("{:?} {:?}", form.encoding, form.shape),
    }
}

#[test]
fn usual_headers_mean_what_their_clauses_say() {
    use ResponseSubject::{List, Log, Object, Plain, Stream, Untabled};
    let json = ["application/json", "application/json, */*"];
    for accept in json.into_iter().chain([PROTOBUF, "application/vnd.kubernetes.protobuf,application/json"]) {
        for (subject, typed) in
            [Object, Untabled, List, Stream, Log, Plain].into_iter().zip([true, false].into_iter().cycle())
        {
            assert!(accept::is_produced(accept, &subject.produced()));
            if let Some(form) = usual(Some(accept), typed) {
                assert_eq!(negotiate(Some(accept), subject, typed), Some(form), "{accept} {subject:?}");
            }
        }
        assert!(usual(Some(accept), true).is_some());
    }
}

#[test]
fn the_clients_order_decides() {
    assert_eq!(form("application/json;q=0.5,application/yaml;q=0.9", ResponseSubject::Object), "Yaml Whole");
    assert_eq!(form("text/html;q=0.9,*/*;q=0.1", ResponseSubject::Object), "Json Whole");
    assert_eq!(form("application/*", ResponseSubject::Object), "Json Whole");
    assert_eq!(form("*/*, application/yaml;q=0.1", ResponseSubject::Object), "Yaml Whole");
    assert_eq!(form("Application/JSON", ResponseSubject::Object), "406");
}

#[test]
fn what_a_clause_insists_on_must_be_there() {
    for refused in
        ["stream=other", "sv=v2", "v=v1", "g=meta.k8s.io", "as=Table;v=v1", "as=\"Table\";v=v1;g=meta.k8s.io"]
    {
        let accept = format!("application/json;{refused}");
        assert_eq!(form(&accept, ResponseSubject::List), "406", "{accept}");
    }
    for taken in ["stream=watch", "sv=v1", "as=", "charset=utf-8"] {
        let accept = format!("application/json;{taken}");
        assert_eq!(form(&accept, ResponseSubject::List), "Json Whole", "{accept}");
    }
    assert_eq!(form("application/yaml;stream=watch", ResponseSubject::List), "406");
}

#[test]
fn some_subresources_have_no_tables() {
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    for (subresource, as_table) in
        [(None, "Json Table(V1)"), (Some("status"), "Json Table(V1)"), (Some("resize"), "406")]
    {
        let subject = ResponseSubject::of_object(subresource);
        assert_eq!(form(table, subject), as_table, "{subresource:?}");
        assert_eq!(form(metadata, subject), "Json Metadata(V1)", "{subresource:?}");
    }
}

#[test]
fn protobuf_is_for_known_types_and_for_metadata() {
    let typed_client = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(form_of(typed_client, ResponseSubject::List, true), "Protobuf Whole");
    assert_eq!(form_of(typed_client, ResponseSubject::List, false), "Json Whole");
    assert_eq!(form_of("application/vnd.kubernetes.protobuf", ResponseSubject::Stream, false), "406");
    assert_eq!(
        form_of("application/vnd.kubernetes.protobuf;stream=watch", ResponseSubject::Stream, true),
        "Protobuf Whole"
    );
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    assert_eq!(form_of(table, ResponseSubject::List, true), "406");
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(form_of(metadata, ResponseSubject::Object, false), "Protobuf Metadata(V1)");
    let older = metadata.replace("v=v1", "v=v1beta1");
    assert_eq!(form_of(&older, ResponseSubject::Object, false), "Protobuf Metadata(V1Beta1)");
}

#[test]
fn deltas_are_for_watches_of_whole_objects() {
    let wants = |accept: &str, subject| {
        negotiate(Some(accept), subject, true).map(|form| (form.delta, form.stream_type()))
    };
    let plain = Some((false, "application/json"));
    assert_eq!(wants(delta::ACCEPT, ResponseSubject::Stream), Some((true, delta::MEDIA_TYPE)));
    assert_eq!(wants(delta::ACCEPT, ResponseSubject::List), plain);
    assert_eq!(
        wants("application/json;stream=watch;delta=other,application/json", ResponseSubject::Stream),
        plain
    );
    assert_eq!(wants("application/json", ResponseSubject::Stream), plain);
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1;delta=json-patch";
    assert_eq!(wants(table, ResponseSubject::Stream), plain);
}

#[test]
fn transformations_fit_their_subject() {
    let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(form(kubectl, ResponseSubject::List), "Json Table(V1)");
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    assert_eq!(form(one, ResponseSubject::List), "Json Unfit");
    assert_eq!(form(one, ResponseSubject::Stream), "Json Metadata(V1)");
    let old = "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(form(old, ResponseSubject::List), "Json Table(V1Beta1)");
    assert_eq!(form(&old.replace("v1beta1", "v2"), ResponseSubject::List), "Json Whole");
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    assert_eq!(
        (form(list, ResponseSubject::List).as_str(), form(list, ResponseSubject::Object).as_str()),
        ("Json Metadata(V1)", "Json Unfit")
    );
}
