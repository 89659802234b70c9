//! The control program, arguments and results; the first byte chooses which.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_control::codec::*;

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    match which % 14 {
        0 => stable::<Objects>(data),
        1 => stable::<ControlResult<StatOk>>(data),
        2 => stable::<TruncateArgs>(data),
        3 => stable::<ControlResult<Statuses>>(data),
        4 => stable::<FenceArgs>(data),
        5 => stable::<ControlResult<SpaceOk>>(data),
        6 => stable::<SeekArgs>(data),
        7 => stable::<ControlResult<SeekOk>>(data),
        8 => stable::<PunchArgs>(data),
        9 => stable::<AllocateArgs>(data),
        10 => stable::<CopyArgs>(data),
        11 => stable::<ControlResult<CopyOk>>(data),
        12 => stable::<ControlResult<StatusOk>>(data),
        _ => stable::<ControlResult<Nothing>>(data),
    }
});
