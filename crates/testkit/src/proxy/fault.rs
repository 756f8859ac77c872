//! [`Fault`]: the faults that the proxy can inject into one request.
//!
//! They are the ones seen in production: refused and cut connections, a load balancer's HTML page, 429 and 410, delays
//! that reorder requests, streams that end early though in good form, and streams that stall. A clean early end is the
//! hardest to notice for a client. The choice per request is [`Plan`](super::Plan).

use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use listwatch_wire::Status;
use listwatch_wire::event::{self, EventType};

use super::Faulty;

/// The treatment of one request by the proxy.
///
/// One per request. Faults of a stream happen once, at their place; the plan decides separately about the client's next
/// request.
///
/// ```
/// use std::time::Duration;
///
/// use listwatch_testkit::proxy::{Fault, Place, Plan, Rule, Then};
///
/// // The next watch breaks off inside its third event. The one after that stalls for a minute at its beginning.
/// let plan = Plan::script([
///     Rule { requests_with: "watch=true", fault: Fault::Break { place: Place::InsideLine(2), then: Then::Cut } },
///     Rule {
///         requests_with: "watch=true",
///         fault: Fault::Break { place: Place::Bytes(0), then: Then::Stall(Duration::from_secs(60)) },
///     },
/// ]);
/// # let _: Plan = plan;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The connection is closed without a response.
    Refuse,
    /// The request is not forwarded; the client gets this response.
    Answer(FaultAnswer),
    /// The request waits before it is forwarded, so that later ones overtake it.
    Delay(Duration),
    /// The response's body breaks off.
    Break {
        /// The place of the fault in the body.
        place: Place,
        /// The manner.
        then: Then,
    },
}

/// The place at which a body breaks off.
///
/// Zero is before the first byte of the body, after the head of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After so many bytes.
    Bytes(u64),
    /// After so many whole lines: between two watch events.
    Lines(u64),
    /// After so many whole lines and a piece of the next: inside a watch event.
    InsideLine(u64),
}

/// The ways in which a body breaks off. A clean end is the hardest to detect for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The connection is cut: the client sees an error.
    Cut,
    /// The body ends in due form: the client sees a clean end, though there was more to come.
    End,
    /// Nothing is sent for this long, then the body continues.
    Stall(Duration),
}

/// A response that the proxy sends in the server's place.
///
/// ```
/// use listwatch_testkit::proxy::{Fault, FaultAnswer, Plan, Rule};
/// use listwatch_wire::Status;
///
/// // The next watch is refused with 429 and Retry-After, the list after it with a load balancer's error page.
/// let overloaded = Status::too_many_requests("come back later", 1);
/// let _plan = Plan::script([
///     Rule { requests_with: "watch=true", fault: Fault::Answer(FaultAnswer::status(&overloaded)) },
///     Rule { requests_with: "limit=", fault: Fault::Answer(FaultAnswer::html(502)) },
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultAnswer {
    code: u16,
    content_type: &'static str,
    retry_after: Option<u32>,
    body: Bytes,
}

impl FaultAnswer {
    /// A `Status` as the response's body, with its own code and `Retry-After`.
    #[must_use]
    pub fn status(status: &Status) -> Self {
        let body = status.to_json().into();
        Self { code: status.code, content_type: "application/json", retry_after: status.retry_after(), body }
    }

    /// A `Status` as the only event of a watch that was answered with 200.
    #[must_use]
    pub fn error_event(status: &Status) -> Self {
        let mut line = Vec::new();
        event::frame(EventType::Error, &status.to_json(), &mut line);
        Self { code: 200, content_type: "application/json", retry_after: None, body: line.into() }
    }

    /// The response of a load balancer when it finds no server behind it: not JSON, not a `Status`.
    #[must_use]
    pub fn html(code: u16) -> Self {
        let body = format!("<html><head><title>{code}</title></head><body><h1>{code}</h1></body></html>\n");
        Self { code, content_type: "text/html", retry_after: None, body: body.into() }
    }

    /// This response, sent by the proxy itself. The request is not forwarded.
    pub(super) fn into_response(self) -> Result<Response<Faulty>, http::Error> {
        let mut response =
            Response::builder().status(self.code).header(header::CONTENT_TYPE, self.content_type);
        if let Some(seconds) = self.retry_after {
            response = response.header(header::RETRY_AFTER, seconds);
        }
        response.body(Faulty::whole(http_body_util::Full::new(self.body)))
    }
}
