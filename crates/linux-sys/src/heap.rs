//! The C library's heap, made to keep less free memory.
//!
//! glibc gives threads arenas of their own, and keeps freed memory in them. In a guest that memory
//! is missing to the pod.

#![expect(unsafe_code, reason = "functions of the C library")]

/// The smallest piece that is a mapping of its own. Buffers of a layer's threads and small blobs
/// that are read whole stay for a while, and within the heap they leave holes. The HTTP client's
/// buffers (at most 408 KiB) are used once and would cost a mapping each, so they stay below. The C
/// library would raise this with each mapping that becomes free.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 448 << 10;

/// Makes all threads share a few arenas, and keeps large buffers out of them. To be called before
/// there are threads.
pub fn share_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: numbers for the C library, which it takes or refuses.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}

/// Keeps what becomes free, up to some megabytes: for a process that ends soon, and for which
/// giving memory back and taking it again is most of the work.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    // SAFETY: numbers for the C library, which it takes or refuses.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 8 << 20);
        libc::mallopt(libc::M_TOP_PAD, 256 << 10);
    }
}

/// Gives back to the kernel what is free. Takes some milliseconds where much is.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes the heap's own locks, and touches only what nobody holds.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        kib.unwrap().parse().unwrap()
    }

    #[test]
    fn what_is_free_is_given_back() {
        // Small pieces, so that they come from the heap and not from mappings of their own; the
        // last one keeps its end in use.
        let mut pieces: Vec<Vec<u8>> = (0..32_000).map(|_| vec![1; 1024]).collect();
        let last = pieces.pop();
        drop(pieces);
        let before = resident_kib();
        super::trim();
        let after = resident_kib();
        drop(last);
        assert!(after + 20_000 < before, "{before} KiB, then {after} KiB");
    }
}
