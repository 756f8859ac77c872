//! An API server inside a test, a fault-injecting proxy, and validators of the watch promises.
