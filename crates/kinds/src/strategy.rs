//! [`KindStrategy`]: the defaulting, preparation, validation and printing of a kind, as entries of its row.
//!
//! Named after kube-apiserver's registry strategies. Names, scope and verbs are in [`crate::kind`]; the rules of the
//! fields are in the tables of `rules`, under the name of the struct. A kind without special handling has
//! [`KindStrategy::PLAIN`].

use listwatch_wire::json::{Map, Value, json};

use crate::columns::{self, KindColumns};
use crate::convert::Direction;
use crate::field::Errors;
use crate::prepare;

/// The treatment of objects of a kind on their way in and out.
///
/// Function pointers and not a trait, because a row is a constant and most kinds differ in one or two entries. All of
/// them are called with an object that has passed the type check. The order on create is: defaults, complete, initial
/// status, create, validation; on update: defaults, update, generation, validation.
#[derive(Clone, Copy, Debug)]
pub struct KindStrategy {
    /// Fills in the fields that were left out ([`crate::defaults`]).
    pub(crate) defaults: fn(&mut Map),
    /// The defaults look at metadata, or are about it.
    ///
    /// Then an update that changes metadata alone runs them too; see [`crate::defaults::apply_change`].
    pub(crate) defaults_metadata: bool,
    /// Defaults that follow from the status, and are filled in when only that changes.
    pub(crate) status_defaults: fn(&mut Map),
    /// Completes a new object before its status is made ([`crate::prepare`]).
    pub(crate) complete: fn(&mut Value),
    /// The status of a new object. `None` keeps what the client sent, as for kinds that had no status subresource at
    /// first.
    pub(crate) initial_status: Option<fn(&Value) -> Value>,
    /// Completes a new object after that.
    pub(crate) create: fn(&mut Value),
    /// Makes an object the successor of the stored one.
    pub(crate) update: fn(&mut Value, &Value),
    /// Completes an object that was sent as a change of the status, before all but its status and metadata is the stored one's.
    pub(crate) complete_status: fn(&mut Value),
    /// Completes a change of the status.
    pub(crate) status_update: fn(&mut Value, &Value),
    /// Sets the generation of a changed object, if the kind counts them.
    pub(crate) count_generation: fn(&mut Value, &Value),
    /// A new object has a generation.
    pub(crate) generation_at_creation: bool,
    /// Parts of the metadata that a change of the status leaves as they are.
    pub(crate) kept_by_status: &'static [&'static str],
    /// Fields that a write through a subresource ignores, and does not own in managedFields (GetResetFields). The
    /// subresource `""` is the object itself.
    pub(crate) resets: Resets,
    /// The place of a pod spec.
    ///
    /// Used to find fields of disabled features and warnings, in Pods and in every template.
    pub(crate) pod_spec: Option<&'static [&'static str]>,
    /// Fields whose features are off.
    pub(crate) disabled: &'static [&'static str],
    /// True if fields of `disabled` raise the generation of an object although they are dropped.
    pub(crate) counts_dropped_fields: bool,
    /// Converts between this form and the one that is stored ([`crate::convert`]), for kinds that are stored as another.
    pub(crate) convert: fn(&mut Map, Direction),
    /// Validation that comes before all other, and alone if it finds something.
    ///
    /// For checks after which the others would only repeat the problem.
    pub(crate) validate_first: fn(&Value, &mut Errors),
    /// The metadata of a new object is checked after all other, if that is valid: the kind's own validation leaves it out, and
    /// kube-apiserver checks it for all kinds at the end.
    pub(crate) metadata_last: bool,
    /// Finalizers of others need a domain.
    pub(crate) qualified_finalizers: bool,
    /// The warning that every response about a deprecated kind carries.
    pub(crate) deprecated: Option<&'static str>,
    /// Warnings about a new object as it was sent, before the server completes it ([`crate::warnings`]).
    pub(crate) warnings_as_sent: fn(&Value, &mut Vec<String>),
    /// Warnings about a new object, or about a changed one and the stored one (WarningsOnCreate and WarningsOnUpdate).
    pub(crate) warnings: fn(&Value, Option<&Value>, &mut Vec<String>),
    /// The columns of its tables ([`crate::columns`]).
    pub(crate) columns: KindColumns,
    /// The condition of an object's row (`TableRowCondition`), for kinds whose objects come to an end.
    pub(crate) row_condition: fn(&Value) -> Option<Value>,
}

/// Fields by the subresource that resets them.
pub(crate) type Resets = &'static [(&'static str, &'static [&'static [&'static str]])];

/// A write of the object itself leaves the status as it is.
pub(crate) const RESET_STATUS: (&str, &[&[&str]]) = ("", &[&["status"]]);

/// A write of the status leaves metadata as it is, too.
pub(crate) const RESETS_OF_STATUS_ONLY: Resets = &[RESET_STATUS, ("status", &[&["spec"], &["metadata"]])];

impl KindStrategy {
    /// The strategy of a kind without special handling.
    pub(crate) const PLAIN: Self = Self {
        defaults: |_| {},
        defaults_metadata: false,
        status_defaults: |_| {},
        complete: |_| {},
        initial_status: Some(|_| json!({})),
        create: |_| {},
        update: |_, _| {},
        complete_status: |_| {},
        status_update: |_, _| {},
        count_generation: prepare::count_specs,
        generation_at_creation: true,
        kept_by_status: &[],
        resets: &[RESET_STATUS, ("status", &[&["spec"]])],
        pod_spec: None,
        disabled: &[],
        counts_dropped_fields: false,
        convert: |_, _| {},
        validate_first: |_, _| {},
        metadata_last: false,
        qualified_finalizers: true,
        deprecated: None,
        warnings_as_sent: |_, _| {},
        warnings: |_, _, _| {},
        columns: columns::DEFAULT,
        row_condition: |_| None,
    };

    /// The plain strategy of a kind whose metadata cannot be written together with the status.
    pub(crate) const STATUS_ONLY: Self = Self {
        kept_by_status: &["labels", "annotations", "finalizers", "ownerReferences"],
        resets: RESETS_OF_STATUS_ONLY,
        ..Self::PLAIN
    };
}
