//! The client of kubelets at the start of the server: its certificate, from files or from the server's own CA.
//!
//! Requests to kubelets are `forward/connect`; they use what is made here and read no file. kube-apiserver's flags of the same
//! purpose are `--kubelet-client-certificate`, `--kubelet-client-key` and `--kubelet-certificate-authority`.

use crate::api::NodeConnections;
use crate::auth::MASTERS;
use crate::identity::authority::Authority;
use crate::options::NodeOptions;
use crate::outbound::KubeletTls;
use crate::{Error, files};

/// The user that this server is to kubelets, as in clusters made by kubeadm.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// Makes the client of kubelets: with the certificate of the options, or one that the server's CA issues for it. Kubelets
/// authorize requests by a SubjectAccessReview on this server, which allows everything to the group of that certificate.
///
/// # Errors
///
/// A file that cannot be read or used.
pub(super) fn connections(options: &NodeOptions, authority: &Authority) -> Result<NodeConnections, Error> {
    let (certificate, key) = match &options.client_certificate {
        Some((certificate, key)) => (files::read(certificate)?, files::read(key)?),
        None => {
            let issued = authority.client(KUBELET_CLIENT, MASTERS)?;
            (issued.certificate, issued.key)
        }
    };
    let ca = options.certificate_authority.as_deref().map(files::read).transpose()?;
    let tls = KubeletTls::new((&certificate, &key), ca.as_deref()).map_err(Error::Tls)?;
    Ok(NodeConnections::new(options, tls))
}
