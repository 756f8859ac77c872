//! The status of a Job.

use super::*;

/// The fields with errors when a Job of three completions gets a status.
fn job_status_fields(new: Value, old: Value) -> Vec<String> {
    let kind = by_kind("batch", "v1", "Job").unwrap();
    let job = |status: Value| json!({"metadata": {"name": "x", "namespace": "n", "resourceVersion": "1"}, "spec": {"completions": 3, "parallelism": 1}, "status": status});
    status_update(kind, &job(new), &job(old)).into_iter().map(|error| error.field).collect()
}

#[test]
fn a_job_completes_with_its_times_and_its_reason() {
    let done = json!({"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:00:01Z", "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
    assert_eq!(job_status_fields(done, json!({})), [""; 0]);
    let bare = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert_eq!(
        job_status_fields(bare, json!({})),
        ["status.completionTime", "status.conditions", "status.startTime"]
    );
}

#[test]
fn counters_and_outcomes_of_a_job_are_not_taken_back() {
    let failed = json!({"failed": 2, "startTime": "2020-01-01T00:00:00Z", "conditions": [
        {"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]});
    assert_eq!(job_status_fields(failed.clone(), failed.clone()), [""; 0]);
    let less = json!({"failed": 1, "startTime": "2020-01-01T00:00:00Z"});
    assert_eq!(job_status_fields(less, failed), ["status.conditions", "status.conditions", "status.failed"]);
}

#[test]
fn a_job_status_that_breaks_a_newer_rule_can_still_be_written() {
    let old = json!({"ready": 3, "active": 1});
    assert_eq!(job_status_fields(json!({"ready": 3, "active": 1, "succeeded": 1}), old), [""; 0]);
    assert_eq!(job_status_fields(json!({"ready": 3, "active": 1}), json!({})), ["status.ready"]);
}

#[test]
fn indexes_of_a_job_are_in_order_and_end_in_one_way() {
    let status = json!({"completedIndexes": "0-1", "failedIndexes": "1,0"});
    let fields = job_status_fields(status, json!({}));
    // The completion mode is not Indexed, and failed indexes are not counted.
    assert_eq!(fields, ["status.completedIndexes", "status.failedIndexes", "status.failedIndexes"]);
}
