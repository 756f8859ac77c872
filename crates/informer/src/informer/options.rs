//! [`InformerOptions`]: one set of options for a single informer or for every informer of a factory.
//!
//! It groups the options of the parts, [`ReflectorOptions`] and [`QueueOptions`], so that each bound is documented
//! where it is kept. Settings of one handler are in [`HandlerOptions`](crate::HandlerOptions); settings of one informer
//! (name, transform, saved cache) are in [`InformerBuilder`](super::InformerBuilder).

use std::time::Duration;

use crate::delta::QueueOptions;
use crate::reflector::ReflectorOptions;

/// Options of informers: listing, queueing, resyncs. One set serves a single informer
/// ([`InformerBuilder::options`](super::InformerBuilder::options)) and a factory
/// ([`InformerFactory::options`](crate::InformerFactory::options)) alike.
///
/// ```
/// use std::time::Duration;
/// use listwatch::InformerOptions;
///
/// let mut options = InformerOptions::default();
/// options.resync = Some(Duration::from_secs(600));
/// options.reflector.streaming = false;
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct InformerOptions {
    /// Listing and watching.
    pub reflector: ReflectorOptions,
    /// The queue of changes on their way to the store. An informer with one source and the
    /// [in-order form](crate::delta::Form::InOrder) has no use for a queue: it applies what it reads.
    pub queue: QueueOptions,
    /// The resync period: handlers without their own receive every object again once per this time. Default,
    /// and zero: never.
    pub resync: Option<Duration>,
}
