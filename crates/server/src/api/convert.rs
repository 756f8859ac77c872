//! Objects in the version that is asked for or stored, by the rules of their kind or by a conversion webhook.
//!
//! Most kinds need no call: the strategy (`registry/strategy.rs`) converts in place, and lists and watches show
//! stored bytes. For a definition with a conversion webhook, each object that is not of the wanted version is sent to
//! it, several at a time.

use std::sync::Arc;

use bytes::Bytes;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{self, Value};

use super::Api;
use crate::cache::CachedObject;
use crate::registry::Resource;
use crate::registry::custom::{Conversion, kind_of};

/// Makes an object of one version of a resource one of another. Null stays null.
///
/// # Errors
/// If a conversion webhook fails.
pub(crate) async fn convert(
    api: &Api,
    object: &mut Value,
    from: &Resource,
    to: &Resource,
) -> Result<(), Status> {
    match &to.conversion {
        _ if object.is_null() => {}
        Some(conversion) => call_for_one(api, conversion, object, &conversion.api_version).await?,
        None => {
            from.rules.stored_form(object);
            to.rules.served_form(object);
        }
    }
    Ok(())
}

/// Makes an object one of the version that is stored.
///
/// # Errors
/// If a conversion webhook fails.
pub(crate) async fn to_stored(api: &Api, resource: &Resource, object: &mut Value) -> Result<(), Status> {
    resource.rules.stored_form(object);
    match &resource.conversion {
        Some(conversion) => call_for_one(api, conversion, object, &conversion.stored_api_version).await,
        None => Ok(()),
    }
}

/// Makes a stored object one of the version of the resource.
///
/// # Errors
/// If a conversion webhook fails.
pub(crate) async fn from_stored(api: &Api, resource: &Resource, object: &mut Value) -> Result<(), Status> {
    resource.rules.served_form(object);
    match &resource.conversion {
        Some(conversion) => call_for_one(api, conversion, object, &conversion.api_version).await,
        None => Ok(()),
    }
}

/// Converts an object that a dry run would store to the stored version and back, as if it had been stored and read again: this
/// drops the fields that the stored version does not have.
///
/// # Errors
/// If a conversion webhook fails.
pub(crate) async fn round_trip(api: &Api, resource: &Resource, object: &mut Value) -> Result<(), Status> {
    to_stored(api, resource, object).await?;
    from_stored(api, resource, object).await
}

/// Calls the webhook for one object, unless it is of the wanted version already.
async fn call_for_one(
    api: &Api,
    conversion: &Conversion,
    object: &mut Value,
    wanted: &str,
) -> Result<(), Status> {
    if object.text("apiVersion") == wanted {
        return Ok(());
    }
    let converted = Box::pin(call(api, conversion, std::slice::from_ref(object), wanted)).await?;
    if let Some(converted) = converted.into_iter().next() {
        *object = converted;
    }
    Ok(())
}

/// The user by whose share of the blocking threads large answers are read. Conversions are shared by requests of several users.
const CONVERSIONS: &str = "system:apiserver";

/// The rule for reusing conversions that were made for other requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConversionFreshness {
    /// Objects of lists and watches: a conversion is shared by all of them, as in kube-apiserver's watch cache.
    Shared,
    /// An object that is read by its name, or was just written, is converted again.
    Own,
}

/// Returns stored objects as the resource shows them, if a webhook converts them. Other resources show objects in
/// [`Resource::present`], which leaves these as they are.
///
/// # Errors
/// If the webhook fails.
pub(crate) async fn shown(
    api: &Api,
    resource: &Resource,
    objects: Vec<Arc<CachedObject>>,
    freshness: ConversionFreshness,
) -> Result<Vec<Arc<CachedObject>>, Status> {
    match &resource.conversion {
        Some(conversion) => Box::pin(show(api, resource, conversion, objects, freshness)).await,
        None => Ok(objects),
    }
}

/// Returns one stored object as the resource shows it.
///
/// # Errors
/// If the webhook fails.
pub(crate) async fn shown_one(
    api: &Api,
    resource: &Resource,
    object: Arc<CachedObject>,
) -> Result<Arc<CachedObject>, Status> {
    if resource.conversion.is_none() {
        return Ok(object);
    }
    let shown = shown(api, resource, vec![Arc::clone(&object)], ConversionFreshness::Own).await?;
    Ok(shown.into_iter().next().unwrap_or(object))
}

/// Converts the objects that are not of the wanted version, in batches bounded in number and bytes. Order and length
/// stay.
async fn show(
    api: &Api,
    resource: &Resource,
    conversion: &Conversion,
    mut objects: Vec<Arc<CachedObject>>,
    freshness: ConversionFreshness,
) -> Result<Vec<Arc<CachedObject>>, Status> {
    let limits = api.options.admission.webhooks;
    let mut batch = ConversionBatch::default();
    for index in 0..objects.len() {
        let Some(object) = objects.get(index).cloned() else { break };
        let kept = conversion
            .kept(object.key(), object.revision())
            .filter(|_| freshness == ConversionFreshness::Shared);
        if let Some(bytes) = kept {
            replace(resource, &mut objects, index, bytes);
            continue;
        }
        let mut value = Value::read(object.stored()).map_err(Status::internal)?;
        let old = object.revision() < resource.since;
        if conversion.begin(&mut value, old) {
            if old {
                replace(resource, &mut objects, index, json::encode_stored(&value).into());
            }
            continue;
        }
        batch.add(index, value, object.stored().len());
        if batch.bytes >= limits.conversion_bytes || batch.values.len() >= limits.conversion_objects {
            finish(api, resource, conversion, std::mem::take(&mut batch), &mut objects).await?;
        }
    }
    finish(api, resource, conversion, batch, &mut objects).await?;
    Ok(objects)
}

/// Objects to be converted by one call.
#[derive(Default)]
struct ConversionBatch {
    /// Their places among all.
    places: Vec<usize>,
    values: Vec<Value>,
    bytes: usize,
}

impl ConversionBatch {
    /// Bytes are counted as stored; a webhook is sent about as many.
    fn add(&mut self, place: usize, value: Value, bytes: usize) {
        self.places.push(place);
        self.values.push(value);
        self.bytes += bytes;
    }
}

/// Converts a batch and puts the results in the places of the objects.
async fn finish(
    api: &Api,
    resource: &Resource,
    conversion: &Conversion,
    batch: ConversionBatch,
    objects: &mut [Arc<CachedObject>],
) -> Result<(), Status> {
    if batch.values.is_empty() {
        return Ok(());
    }
    let converted = call(api, conversion, &batch.values, &conversion.api_version).await?;
    for (place, value) in batch.places.into_iter().zip(converted) {
        let bytes: Bytes = json::encode_stored(&value).into();
        if let Some(object) = objects.get(place) {
            conversion.keep(object.key(), object.revision(), &bytes);
        }
        replace(resource, objects, place, bytes);
    }
    Ok(())
}

/// Puts the converted bytes in the place of an object. One that cannot be read stays as it is.
fn replace(resource: &Resource, objects: &mut [Arc<CachedObject>], index: usize, bytes: Bytes) {
    if let Some(object) = objects.get_mut(index)
        && let Some(shown) = resource.collection.object(object.key(), bytes, object.revision())
    {
        *object = shown;
    }
}

/// Calls the webhook.
async fn call(
    api: &Api,
    conversion: &Conversion,
    objects: &[Value],
    wanted: &str,
) -> Result<Vec<Value>, Status> {
    let endpoint = conversion.endpoint.as_ref().map_err(Status::unknown_reason)?;
    let review = conversion.ask(objects, wanted).map_err(Status::unknown_reason)?;
    let timeout = api.options.admission.webhooks.conversion_timeout;
    let kind = objects.first().map(kind_of).unwrap_or_default();
    let answer = api.call_webhook(endpoint, review.body.clone(), timeout).await;
    let answer = answer
        .map_err(|why| Status::unknown_reason(format!("conversion webhook for {kind} failed: {why}")))?;
    let pool = api.blocking_for(CONVERSIONS);
    let mut converted = if pool.takes(answer.len()) {
        let (originals, wanted) = (objects.to_vec(), wanted.to_owned());
        pool.run(async move { review.read(&answer, &originals, &wanted).map_err(Status::unknown_reason) })
            .await
    } else {
        review.read(&answer, objects, wanted).map_err(Status::unknown_reason)
    }?;
    converted.iter_mut().for_each(|object| conversion.accept(object, wanted));
    Ok(converted)
}
