//! Prefetching: asks the processor to load memory into its cache before it is used.

/// Length of a cache line in bytes. Where lines are longer, some are prefetched twice.
const LINE_BYTES: usize = 64;

/// Prefetches the cache line at an address without waiting for it. The address need not be valid.
pub fn fetch(address: usize) {
    line(address);
}

/// Prefetches this many bytes from an address on.
pub fn fetch_bytes(address: usize, bytes: usize) {
    (address..address.saturating_add(bytes)).step_by(LINE_BYTES).for_each(line);
}

/// Prefetches all of a value.
pub fn fetch_all<T>(value: &T) {
    fetch_bytes(std::ptr::from_ref(value).addr(), size_of::<T>());
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn line(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction has no effect on the program's state, and ignores addresses without memory.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) }
}

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
fn line(address: usize) {
    // SAFETY: as above.
    unsafe { std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags)) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn line(_address: usize) {}
