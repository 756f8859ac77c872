//! Informers for Kubernetes: reflector, delta queue, indexed cache, shared informers, work queues.
