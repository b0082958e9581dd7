//! Having the processor fetch memory into its cache ahead of its use.

/// Length of what a processor fetches at once. Where it is more, some is asked for twice.
const LINE_BYTES: usize = 64;

/// Has the processor fetch what is at an address, and does not wait for it. There need not be anything.
pub(crate) fn fetch(address: usize) {
    line(address);
}

/// Has it fetch so many bytes from an address on.
pub(crate) fn fetch_bytes(address: usize, bytes: usize) {
    (address..address.saturating_add(bytes)).step_by(LINE_BYTES).for_each(line);
}

/// Has it fetch all of a value.
pub(crate) fn fetch_all<T>(value: &T) {
    fetch_bytes(std::ptr::from_ref(value).addr(), size_of::<T>());
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn line(address: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that the program sees, and ignores addresses without memory.
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
