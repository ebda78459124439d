//! Which level of the x86-64 instruction set this guest's processor has (x86-64 psABI,
//! "Micro-Architecture Levels").
//!
//! The host decides which processor a guest sees, and so which of the variants in an index is
//! chosen. That is no more than the choice among images that the pinned digest names as equals.

/// The level, from 1 to 4.
#[cfg(target_arch = "x86_64")]
pub(crate) fn level() -> u8 {
    use std::is_x86_feature_detected as has;

    // LAHF in 64-bit mode belongs to level 2 as well; the standard library cannot ask for it, and
    // whatever has SSE4.2 has it.
    let has_second = has!("cmpxchg16b")
        && has!("popcnt")
        && has!("sse3")
        && has!("ssse3")
        && has!("sse4.1")
        && has!("sse4.2");
    let has_third = has!("avx")
        && has!("avx2")
        && has!("bmi1")
        && has!("bmi2")
        && has!("f16c")
        && has!("fma")
        && has!("lzcnt")
        && has!("movbe")
        && has!("xsave");
    let has_fourth = has!("avx512f")
        && has!("avx512bw")
        && has!("avx512cd")
        && has!("avx512dq")
        && has!("avx512vl");
    let levels = [has_second, has_third, has_fourth];
    levels.iter().take_while(|has| **has).fold(1, |n, _| n + 1)
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    /// The kernel's list of flags is another way to the same answer.
    #[test]
    fn level_agrees_with_the_kernel() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap();
        let has = |wanted: &str| {
            wanted.split(' ').all(|wanted| flags.split_whitespace().any(|flag| flag == wanted))
        };
        let level = [
            "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2",
            "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
            "avx512f avx512bw avx512cd avx512dq avx512vl",
        ];
        let level = 1 + level.into_iter().take_while(|flags| has(flags)).count();
        assert_eq!(usize::from(super::level()), level);
    }
}
