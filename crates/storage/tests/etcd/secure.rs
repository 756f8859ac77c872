//! etcd behind TLS and behind passwords.

use etcd_client::{Permission, PermissionType};
use listwatch_storage::etcd::{EtcdTls, EtcdUser};
use listwatch_storage::{Engine, Error, EtcdEngine, EtcdOptions};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::cluster::{Cluster, available};
use crate::{put, read_upto, set};

/// A certificate authority, and what it signed.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate and its key, good for both ends: etcd uses its own for calls to itself.
    fn sign(&self) -> (String, String) {
        let mut params =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_certificates_on_both_ends() {
    if !available() {
        return;
    }
    let authority = Authority::new();
    let ((certificate, key), own) = (authority.sign(), authority.sign());
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        std::fs::write(files.path().join(name), content).unwrap();
        files.path().join(name).to_str().unwrap().to_owned()
    };
    let arguments = [
        format!("--cert-file={}", file("cert", &certificate)),
        format!("--key-file={}", file("key", &key)),
        format!("--trusted-ca-file={}", file("ca", &authority.certificate)),
        "--client-cert-auth".to_owned(),
    ];
    let tls = EtcdTls {
        ca: Some(authority.certificate.into_bytes()),
        identity: Some((own.0.into_bytes(), own.1.into_bytes())),
        server_name: None,
    };
    let cluster = Cluster::secure(&arguments, tls.clone()).await;
    let engine = cluster.engine("/tls").await;
    let mut log = engine.changes(engine.current().await.unwrap()).await.unwrap();
    let revision = set(&engine, "/a", 1).await;
    assert_eq!(read_upto(&mut log, revision).await.len(), 1);
    let stranger = EtcdOptions {
        tls: Some(EtcdTls { identity: None, ..tls }),
        deadline: std::time::Duration::from_secs(2),
        ..cluster.options("/tls")
    };
    let outcome = EtcdEngine::connect(stranger).await;
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_passwords() {
    if !available() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let mut admin = cluster.client().await;
    for name in ["root", "listwatch"] {
        admin.role_add(name).await.unwrap();
        admin.user_add(name, "secret", None).await.unwrap();
        admin.user_grant_role(name, name).await.unwrap();
    }
    let ours = Permission::new(PermissionType::Readwrite, "/auth/").with_range_end("/auth0");
    admin.role_grant_permission("listwatch", ours).await.unwrap();
    admin.auth_enable().await.unwrap();
    let options = |password: &str| EtcdOptions {
        user: Some(EtcdUser { name: "listwatch".to_owned(), password: password.to_owned() }),
        deadline: std::time::Duration::from_secs(3),
        ..cluster.options("/auth")
    };
    let engine = EtcdEngine::connect(options("secret")).await.unwrap();
    let mut log = engine.changes(engine.current().await.unwrap()).await.unwrap();
    let revision = set(&engine, "/a", 1).await;
    assert_eq!(read_upto(&mut log, revision).await.len(), 1);
    assert!(EtcdEngine::connect(options("wrong")).await.is_err());
    let elsewhere = EtcdOptions { prefix: "/other".to_owned(), ..options("secret") };
    let outcome = match EtcdEngine::connect(elsewhere).await {
        Ok(engine) => engine.write(put("/a", 1)).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}
