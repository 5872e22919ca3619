#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold_fuzz::fuzz::records::run(bytes));
