#![no_main]
//! Calls of the API against a model of it. The input is the choices; the rest is the test of the server that does the same
//! with a seed (`crates/server/tests/model`).

#[path = "../../crates/server/tests/model/choices.rs"]
mod choices;
#[path = "../../crates/server/tests/model/client.rs"]
mod client;
#[path = "../../crates/server/tests/model/driver.rs"]
mod driver;
#[path = "../../crates/server/tests/model/selectors.rs"]
mod selectors;
#[path = "../../crates/server/tests/model/state.rs"]
mod state;

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use listwatch_server::{Handle, LifecycleOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;
use tokio::runtime::Runtime;

/// One server for all runs: each leaves nothing behind.
static SERVER: LazyLock<(Runtime, Handle)> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let options =
        Options { security: Security::InsecureHttp, lifecycle: LifecycleOptions::off(), ..Options::default() };
    let server = runtime.block_on(Server::start(options, Arc::new(MemoryEngine::default()))).expect("a server");
    (runtime, server)
});

fuzz_target!(|bytes: &[u8]| {
    let (_, server) = &*SERVER;
    driver::run(server.address(), server.admin_token(), ["m1", "m2"], bytes);
});
