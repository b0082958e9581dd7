//! Dates (RFC 5322 sections 3.3 and 4.3) and the arguments of NEWGROUPS (RFC 3977 section 7.3).
#![no_main]

use libfuzzer_sys::fuzz_target;
use netnews::date;

const YEAR_0_SECONDS: i64 = -62_167_219_200;
const YEAR_9999_END_SECONDS: i64 = 253_402_300_799;

fuzz_target!(|value: &[u8]| {
    if let Some(secs) = date::parse(value) {
        // A zone can carry the first and the last day beyond the years that are written.
        let mut written = Vec::new();
        date::format_rfc5322(secs, &mut written);
        assert_eq!(date::parse(&written), Some(secs.clamp(YEAR_0_SECONDS, YEAR_9999_END_SECONDS)));
        let padded = [b" (comment) ", value, b" "].concat();
        if padded.len() <= 256 {
            assert_eq!(date::parse(&padded), Some(secs));
        }
    }
    if let Some((days, time)) = value.split_at_checked(8)
        && let Some(secs) = date::parse_nntp(days, time, 0)
        && !time.ends_with(b"60")
    {
        assert_eq!(date::format_nntp(secs), value);
    }
    if let Some((head, rest)) = value.split_first_chunk::<8>() {
        let now = i64::from_le_bytes(*head);
        if let Some((days, time)) = rest.split_at_checked(6) {
            let _ = date::parse_nntp(days, time, now);
        }
        let mut written = Vec::new();
        date::format_rfc5322(now, &mut written);
        assert_eq!(date::parse(&written), Some(now.clamp(YEAR_0_SECONDS, YEAR_9999_END_SECONDS)));
    }
});
