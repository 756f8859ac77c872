//! The change of a target through its Scale: admission of the Scale, then preparation and validation of the target.
//!
//! [`super`] makes the proposals: from an update, a patch or an applied configuration.

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::WriteOptions;

use super::{scale_of, set, walk};
use crate::admission::{Operation, RequestOptions};
use crate::allocate::reservation::Reservation;
use crate::api::Api;
use crate::api::stored::Stored;
use crate::pipeline::WriteRequest;
use crate::pipeline::change::{prepare, verdict};
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Decide, Verdict};
use crate::registry::scale_paths::ScalePaths;
use crate::registry::view::ObjectView;

/// The target with other replicas, or `None` if it has them already.
pub(super) type Proposal = Option<Value>;

/// A change of a target through its Scale, which is what admission sees.
pub(super) struct Scaling<'a, F> {
    pub(super) api: &'a Api,
    pub(super) request: &'a WriteRequest,
    pub(super) target: &'a Target<'a>,
    pub(super) paths: &'a ScalePaths,
    pub(super) options: &'a WriteOptions,
    /// Called once per attempt.
    pub(super) propose: F,
}

impl<F: FnMut(&Stored) -> Result<Proposal, Status> + Send + Sync> Decide for Scaling<'_, F> {
    async fn decide(&mut self, stored: Option<&Stored>) -> Result<Verdict, Status> {
        let stored = stored.ok_or_else(|| self.target.not_found())?;
        // Admission sees a Scale that changes nothing, too.
        let mut new = (self.propose)(stored)?.unwrap_or_else(|| stored.value.clone());
        self.admit(&mut new, stored).await?;
        if new == stored.value {
            return Ok(Verdict::Keep);
        }
        let reservation = Reservation::new(&self.api.allocator);
        prepare(&reservation, self.target, ObjectView::Whole, &mut new, stored, Vec::new())?;
        self.request.record.warn_all(&self.target.resource.rules.warnings(&new, Some(&stored.value)));
        Ok(verdict(&mut new, stored))
    }
}

impl<F: Send + Sync> Scaling<'_, F> {
    /// Lets admission change and check the Scale.
    async fn admit(&self, new: &mut Value, stored: &Stored) -> Result<(), Status> {
        let (api, paths) = (self.api, self.paths);
        let old = scale_of(paths, &stored.value, Some(stored.revision));
        let mut scale = scale_of(paths, new, Some(stored.revision));
        let options = RequestOptions::Update(self.options);
        let attributes =
            self.request.attributes(api, Operation::Update, self.target.name, options, Some(&old));
        api.admission.admit(&attributes, &mut scale).await?;
        api.admission.validate(&attributes, &scale).await?;
        let replicas = scale.at("spec").int("replicas").unwrap_or(0);
        if walk(new, &paths.spec).as_i64() != Some(replicas) {
            set(new, &paths.spec, replicas.into());
        }
        Ok(())
    }
}
