//! Tests of lengths, numbers and armor; whole keys and signatures are in newsreel's `signed_control`.

use super::*;

#[test]
fn packets_have_the_declared_length() {
    let body = |bytes: &[u8]| packet(bytes).map(|(packet, rest)| (packet.tag, packet.body.len(), rest.len()));
    assert_eq!(body(&[0x88, 2, 1, 2, 3]), Some((2, 2, 1)));
    assert_eq!(body(&[0xc2, 1, 9]), Some((2, 1, 0)));
    assert_eq!(body(&[&[0xc2, 192, 0][..], &[7; 192]].concat()), Some((2, 192, 0)));
    assert_eq!(body(&[&[0xc2, 255, 0, 0, 1, 0][..], &[7; 256]].concat()), Some((2, 256, 0)));
    for bad in [
        &[][..],
        &[0x08, 1, 1],
        &[0x88, 2, 1],
        &[0x8b, 1],
        &[0xc2, 224, 1],
        &[0xc2, 255, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(body(bad), None, "{bad:?}");
    }
}

#[test]
fn numbers_have_the_declared_length() {
    assert_eq!(mpi(&[0, 9, 1, 2, 3]), Some((&[1, 2][..], &[3][..])));
    assert_eq!(mpi(&[0, 16, 0, 2]), None);
    assert_eq!(mpi(&[0, 10, 1, 2]), None);
    assert_eq!(mpi(&[0, 0, 2]), Some((&[][..], &[2][..])));
    assert_eq!(mpi(&[0, 17, 1, 2]), None);
    assert_eq!(mpi(&[0xff, 0xff]), None);
}

#[test]
fn armor_is_checked() {
    // Example of data and its checksum from RFC 4880 section 6.6.
    let block = "-----BEGIN PGP MESSAGE-----\nVersion: OpenPrivacy 0.99\n\n\
        yDgBO22WxBHv7O8X7O/jygAEzol56iUKiXmV+XmpCtmpqQUKiQrFqclFqUDBovzS\nvBSFjNSiVHsuAA==\n=njUN\n\
        -----END PGP MESSAGE-----\n";
    assert_eq!(dearmored(block).unwrap().len(), 58);
    assert_eq!(dearmored(&block.replace("=njUN", "=njUM")), None);
    assert_eq!(dearmored("no armor"), None);
    assert_eq!(from_base64(["=njUN", "AAAA"].into_iter()), None, "nothing follows the checksum");
}

#[test]
fn keys_of_old_versions_are_counted_and_not_taken() {
    // Version, creation, days of validity, RSA, modulus, exponent (RFC 4880 section 5.5.2).
    let old = |version: u8| vec![0x99, 0, 15, version, 1, 2, 3, 4, 0, 0, 1, 0, 8, 0x8f, 0, 5, 0x11, 0];
    let user = [0xb4, 3, b'a', b'@', b'b'];
    for version in [2, 3] {
        let file = [&old(version)[..], &user].concat();
        assert_eq!((outdated(&file), certificates(&file).len()), (1, 0));
    }
    assert_eq!((outdated(&old(4)), outdated(b"nothing"), outdated(&[])), (0, 0, 0));
    assert_eq!(outdated(&[old(3), old(3)].concat()), 2);
}

#[test]
fn truncated_or_damaged_packets_do_not_panic() {
    let signature = [&[0xc2, 21, 4, 0, 1, 8, 0, 6, 5, 2, 1, 2, 3, 4, 0, 0, 7, 7, 0, 9, 1, 1, 0][..]].concat();
    for len in 0..signature.len() {
        Signature::read(&signature[..len]);
        for bit in 0..8 {
            let mut changed = signature.clone();
            changed[len] ^= 1 << bit;
            Signature::read(&changed);
            certificates(&changed);
        }
    }
}
