//! Filehandles of data servers: any bytes are judged without a panic, and one that carries our
//! seal, whatever it says, is read, judged and written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_layout::{Access, DataServerHandle, HandleKeys, Rights, Slots, VerifierMask, file_verifier};

fn number<const N: usize>(data: &[u8], at: usize) -> u64 {
    let bytes = data.iter().skip(at).take(N);
    bytes.fold(0, |n, byte| n << 8 | u64::from(*byte))
}

fn mask(bits: u32) -> VerifierMask {
    VerifierMask::between(file_verifier(bits), [0; 8])
}

fuzz_target!(|data: &[u8]| {
    let key = HandleKeys::derive(b"a secret of the fuzzer").of(1, [7; 16]);
    // The fuzzer sees what is compared, and so finds seals; then only one form may have each.
    if let Ok(opened) = DataServerHandle::open(&key, data) {
        assert_eq!(opened.seal(&key)[..], *data);
    }
    let handle = DataServerHandle {
        rights: Rights {
            read: number::<1>(data, 0) & 1 != 0,
            write: number::<1>(data, 0) & 2 != 0,
        },
        makes: number::<1>(data, 0) & 4 != 0,
        ends: number::<1>(data, 0) & 8 != 0,
        slots: match number::<1>(data, 0) & 16 {
            0 => Slots::One(number::<2>(data, 1) as u16),
            _ => Slots::Several(number::<2>(data, 1) as u16),
        },
        volume: number::<4>(data, 3) as u32,
        object: number::<8>(data, 7),
        epoch: number::<4>(data, 15) as u32,
        stripe_count: number::<2>(data, 19) as u16,
        stripe_unit_mib: number::<2>(data, 21) as u16,
        verifier_mask: (number::<1>(data, 0) & 32 != 0).then(|| mask(number::<4>(data, 39) as u32)),
    };
    let Ok(opened) = DataServerHandle::open(&key, &handle.seal(&key)) else { return };
    assert_eq!(opened, handle);
    let (offset, len) = (number::<8>(data, 23), number::<8>(data, 31));
    let _ = opened.admits(offset, len, Access::Read);
    let _ = opened.admits(offset, len, Access::Write);
});
