//! The one binary. All code is in the library; see `newsreel::cli`.

/// Sessions and overview blocks grow and shrink in many threads: glibc's arenas take more time for that, and
/// keep more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    newsreel::cli::main()
}
