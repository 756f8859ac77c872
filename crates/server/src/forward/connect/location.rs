//! Paths of proxied requests, and redirects in their responses.
//!
//! The server behind a proxy does not know the path of the proxy. Redirects to itself get that path as a prefix, so that
//! clients stay behind the proxy; redirects to other hosts are unchanged, and none is followed here.

use crate::outbound::clean_path;

/// The path behind a proxy: everything after `proxy` in the path of the request, cleaned as Go does.
///
/// Empty if there is nothing behind it, not even a slash.
pub(super) fn behind_proxy(path: &str, namespaced: bool) -> String {
    // `/api/v1/namespaces/NS/pods/NAME/proxy/…` or `/api/v1/nodes/NAME/proxy/…`
    let before = if namespaced { 7 } else { 5 };
    let trimmed = path.trim_matches('/');
    let rest: Vec<&str> = trimmed.split('/').skip(before).collect();
    let mut behind = if rest.is_empty() { String::new() } else { clean_path(&rest.join("/")) };
    if path.ends_with('/') && !behind.ends_with('/') {
        behind.push('/');
    }
    behind
}

/// The hosts that a redirect of a proxied server may name to mean itself, and the path before the proxy.
#[derive(Debug)]
pub(super) struct Redirects<'a> {
    /// Host and port that were connected to.
    pub(super) backend: &'a str,
    /// The `Host` header of the request.
    pub(super) host: &'a str,
    /// The path of the request up to the proxy.
    pub(super) before: &'a str,
}

impl Redirects<'_> {
    /// The `Location` header to send in place of one of the proxied server.
    #[doc(alias = "rewriteURL")]
    pub(super) fn rewritten(&self, location: &str) -> String {
        let (origin, host, rest) = split_origin(location);
        let elsewhere = !host.is_empty() && host != self.backend && host != self.host;
        if elsewhere || !rest.starts_with('/') {
            return location.to_owned();
        }
        let origin = if !host.is_empty() && host == self.host { origin } else { "" };
        let end = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, query) = rest.split_at(end);
        if path.starts_with(self.before) {
            return format!("{origin}{path}{query}");
        }
        let mut joined = clean_path(&format!("{}{path}", self.before));
        if path.ends_with('/') && !joined.ends_with('/') {
            joined.push('/');
        }
        format!("{origin}{joined}{query}")
    }
}

/// Splits a URL into `scheme://host`, the host alone and the rest.
fn split_origin(url: &str) -> (&str, &str, &str) {
    let host_at = match url.find("://") {
        Some(at) if url.get(..at).is_some_and(|scheme| !scheme.contains(['/', '?', '#'])) => at + 3,
        _ if url.starts_with("//") => 2,
        _ => return ("", "", url),
    };
    let after = url.get(host_at..).unwrap_or_default();
    let end = host_at + after.find(['/', '?', '#']).unwrap_or(after.len());
    (
        url.get(..end).unwrap_or_default(),
        url.get(host_at..end).unwrap_or_default(),
        url.get(end..).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_behind_a_proxy_is_that_of_the_server() {
        let pods = |rest: &str| behind_proxy(&format!("/api/v1/namespaces/a/pods/p/proxy{rest}"), true);
        for (rest, expected) in [
            ("", ""),
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("/a//../b", "/b"),
            ("/../../..", "/"),
        ] {
            assert_eq!(pods(rest), expected, "{rest}");
        }
        assert_eq!(behind_proxy("/api/v1/nodes/n/proxy/metrics", false), "/metrics");
    }

    #[test]
    fn redirects_stay_behind_the_proxy() {
        let redirects = Redirects { backend: "10.0.0.1:80", host: "api:6443", before: "/x/proxy" };
        for (location, expected) in [
            ("/login?a=/b", "/x/proxy/login?a=/b"),
            ("/dir/", "/x/proxy/dir/"),
            ("http://10.0.0.1:80/login", "/x/proxy/login"),
            ("http://api:6443/login", "http://api:6443/x/proxy/login"),
            ("//10.0.0.1:80/login#top", "/x/proxy/login#top"),
            ("/x/proxy/login", "/x/proxy/login"),
            ("login", "login"),
            ("https://example.com/login", "https://example.com/login"),
            ("http://10.0.0.1:80", "http://10.0.0.1:80"),
        ] {
            assert_eq!(redirects.rewritten(location), expected, "{location}");
        }
    }
}
