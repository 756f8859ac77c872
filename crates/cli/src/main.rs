//! The `listwatch` binary: the allocator, and the commands of `listwatch_commands`.

use std::process::ExitCode;

/// The server allocates and frees small pieces on many threads, which is what mimalloc is made for.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Declines huge pages, which a server of a few megabytes would hardly fill: it would be twice the size. The allocator, which
/// makes its first allocation before `main`, is built not to request them (`no_thp`); this is for kernels that use them unasked.
/// Kernels without this prctl ignore it.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
}

fn main() -> ExitCode {
    disable_huge_pages();
    listwatch_commands::main()
}
