//! The pass compiled for the widest vectors of this processor.
//!
//! Vectors of 16 octets are part of every x86-64 processor; most have 32. The width is detected at run time,
//! and code compiled for wider vectors than the processor has must not be called: that one call is the only
//! `unsafe` of this crate.

use super::LineCounts;

/// Like [`super::count`].
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(super) fn count(wire: &[u8]) -> Option<LineCounts> {
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor supports AVX2, as just detected.
        unsafe { count_avx2(wire) }
    } else {
        super::count(wire)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_avx2(wire: &[u8]) -> Option<LineCounts> {
    super::count(wire)
}

/// Like [`super::count`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn count(wire: &[u8]) -> Option<LineCounts> {
    super::count(wire)
}
