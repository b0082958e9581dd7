//! The one binary. Everything it does stands in the library; see `newsreel::cli`.

fn main() -> std::process::ExitCode {
    newsreel::cli::main()
}
