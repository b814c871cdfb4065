// SPDX-License-Identifier: GPL-2.0-only
//! The reader of ELF images, with sound and with broken ones.

use super::*;
use crate::random::Random;

fn image() -> Vec<u8> {
    let mut image = vec![0u8; 64 + HEADER_SIZE + 16];
    image[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    image[16] = 2;
    image[18] = 62;
    image[24..32].copy_from_slice(&0x20_0000u64.to_le_bytes());
    image[32] = 64;
    image[54] = HEADER_SIZE as u8;
    image[56] = 1;
    image[64] = 1;
    image[72..80].copy_from_slice(&120u64.to_le_bytes());
    image[80..88].copy_from_slice(&0x20_0000u64.to_le_bytes());
    image[96..104].copy_from_slice(&16u64.to_le_bytes());
    image[104..112].copy_from_slice(&64u64.to_le_bytes());
    image
}

#[test]
fn a_good_image_is_read() {
    let image = image();
    let file = parse(&image, 0x20_0000, 0x40_0000).unwrap();
    let segments: Vec<_> = file.segments().map(|s| (s.address, s.size, s.content.len())).collect();
    assert_eq!((file.entry, segments), (0x20_0000, vec![(0x20_0000, 64, 16)]));
}

#[test]
fn a_segment_outside_its_place_is_refused() {
    assert!(parse(&image(), 0x20_0000, 0x20_0020).is_err());
    assert!(parse(&image(), 0x40_0000, 0x80_0000).is_err());
}

#[test]
fn random_damage_never_leads_outside() {
    let random = Random::new(1);
    for _ in 0..100_000 {
        let mut image = image();
        for _ in 0..1 + random.below(4) {
            let at = random.below(image.len() as u64) as usize;
            image[at] = random.below(256) as u8;
        }
        image.truncate(1 + random.below(image.len() as u64) as usize);
        if let Ok(file) = parse(&image, 0x20_0000, 0x40_0000) {
            for segment in file.segments() {
                assert!(segment.address >= 0x20_0000 && segment.address + segment.size as u64 <= 0x40_0000);
                assert!(segment.content.len() <= segment.size);
            }
        }
    }
}
