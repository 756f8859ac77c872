//! A Kubernetes API server whose heart is list and watch.
