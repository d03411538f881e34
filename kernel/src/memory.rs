//! The memory of an instance, which the host bounds. A kernel that gets none traps, as one with a defect does. So it notes
//! that first, and the host asks after a trap.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

static RAN_OUT: AtomicBool = AtomicBool::new(false);

/// Whether there was no memory, at any time, for something that the kernel wanted to keep.
pub fn ran_out() -> bool {
    RAN_OUT.load(Ordering::Relaxed)
}

/// The allocator of the target.
struct Noting;

fn noted(found: *mut u8) -> *mut u8 {
    if found.is_null() {
        RAN_OUT.store(true, Ordering::Relaxed);
    }
    found
}

// SAFETY: each call goes on to `System` as it is, and gives back what that gives.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        noted(System.alloc(layout))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        noted(System.alloc_zeroed(layout))
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        noted(System.realloc(at, layout, size))
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        System.dealloc(at, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_memory_is_noted() {
        assert!(!ran_out());
        assert!(Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).is_err());
        assert!(ran_out());
    }
}
