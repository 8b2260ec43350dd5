//! SHA-256 in hexadecimal.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// SHA-256 of the bytes, 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
