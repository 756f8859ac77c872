//! [`ServiceConnection`]: the handler chain for one connection.
//!
//! It holds the state of the peer between requests; the chain itself is [`super::service`].

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;

use crate::HttpLimits;
use crate::auth::x509::CertificateUser;
use crate::chain::service::Service;
use crate::http::body::Response;
use crate::http::handler::Handler;
use crate::http::metered::ProcessorMeter;
use crate::http::request::{BodySource, Request};
use crate::listen::Connect;
use crate::listen::clients::ConnectionTicket;

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// The result of verifying its certificate, if it presented one.
    pub(super) certificate: Option<CertificateUser>,
    /// The user of its last request, as [`crate::fairness::Flow::user`]: processor time of the connection is counted
    /// for that one.
    pub(super) user: AtomicU64,
    /// True if that user has a share of the processors. The time of others is not measured: it would cost them two system calls
    /// for each event of a watch.
    pub(super) is_paced: AtomicBool,
    /// Its registration as an unauthenticated connection.
    pub(super) ticket: ConnectionTicket,
}

/// The handler chain as one connection sees it: the service, the peer's address, and the user of its client
/// certificate, verified once per connection.
#[derive(Debug)]
pub(crate) struct ServiceConnection {
    service: Arc<Service>,
    peer: Peer,
}

impl Connect for Service {
    type Handler = ServiceConnection;

    fn connect(
        self: &Arc<Self>,
        peer: SocketAddr,
        certificates: Option<&[CertificateDer<'_>]>,
        ticket: ConnectionTicket,
    ) -> ServiceConnection {
        let certificate = certificates.map(|chain| self.api.authenticator.check_certificates(chain));
        ServiceConnection {
            service: Arc::clone(self),
            peer: Peer {
                address: peer,
                certificate,
                user: AtomicU64::new(0),
                is_paced: AtomicBool::new(false),
                ticket,
            },
        }
    }

    fn limits(&self) -> &HttpLimits {
        &self.api.options.http
    }
}

impl ProcessorMeter for ServiceConnection {
    fn is_on(&self) -> bool {
        self.service.api.fairness.pacing.is_shared() && self.peer.is_paced.load(Ordering::Relaxed)
    }

    fn used(&self, took: Duration) {
        self.service.api.fairness.pacing.charge(self.peer.user.load(Ordering::Relaxed), took);
    }
}

impl Handler for ServiceConnection {
    fn handle(&self, request: Request, body: &mut dyn BodySource) -> impl Future<Output = Response> + Send {
        self.service.serve(request, &self.peer, body)
    }

    fn peer(&self) -> SocketAddr {
        self.peer.address
    }

    fn limits(&self) -> &HttpLimits {
        &self.service.api.options.http
    }

    fn is_stopping(&self) -> bool {
        self.service.is_stopping()
    }

    fn stopping(&self) -> impl Future<Output = ()> + Send {
        self.service.stop.cancelled()
    }
}
