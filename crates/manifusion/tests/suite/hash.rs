//! The digest against the standard.

use manifusion::hash::sha256_hex;

#[test]
fn known_digest() {
    // FIPS 180-4, the one-block example.
    assert_eq!(
        sha256_hex(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}
