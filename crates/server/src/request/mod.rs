//! A request as Kubernetes sees it: [`info`] (verb, resource, name), the negotiated form of the response ([`negotiate`]), the
//! [`deadline`] and the [`selectors`] of lists and watches.
//!
//! Values only: nothing here answers a request. The handler chain (`chain/`) makes these values, the verbs (`verbs/`) use them.

pub(crate) mod deadline;
pub(crate) mod info;
pub(crate) mod negotiate;
pub(crate) mod selectors;
