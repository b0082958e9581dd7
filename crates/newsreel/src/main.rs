//! The one binary. Everything it does stands in the library; see `newsreel::cli`.

/// Sessions and overview blocks grow and shrink in many threads: glibc's arenas spend more time on it, and
/// keep more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    newsreel::cli::main()
}
