//! The pass compiled for the vectors that this processor has.
//!
//! What every x86-64 processor has is 16 octets wide; most have 32. Which it is turns out while running, and
//! what is compiled for more than it has must not be called: that one call is the only `unsafe` of this
//! crate.

use super::Counts;

/// As [`super::count`].
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(super) fn count(wire: &[u8]) -> Option<Counts> {
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { count_avx2(wire) }
    } else {
        super::count(wire)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_avx2(wire: &[u8]) -> Option<Counts> {
    super::count(wire)
}

/// As [`super::count`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn count(wire: &[u8]) -> Option<Counts> {
    super::count(wire)
}
