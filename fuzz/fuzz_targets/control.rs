//! The control program, arguments and results; the first byte chooses which.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::stable;
use weft_control::codec::*;

fuzz_target!(|data: &[u8]| {
    let Some((which, data)) = data.split_first() else { return };
    match which % 18 {
        0 => stable::<HelloArgs>(data),
        1 => stable::<ControlResult<HelloOk>>(data),
        2 => stable::<ProveArgs>(data),
        3 => stable::<ControlResult<WhoOk>>(data),
        4 => stable::<Objects>(data),
        5 => stable::<ControlResult<StatOk>>(data),
        6 => stable::<TruncateArgs>(data),
        7 => stable::<ControlResult<Statuses>>(data),
        8 => stable::<FenceArgs>(data),
        9 => stable::<ControlResult<SpaceOk>>(data),
        10 => stable::<SeekArgs>(data),
        11 => stable::<ControlResult<SeekOk>>(data),
        12 => stable::<PunchArgs>(data),
        13 => stable::<AllocateArgs>(data),
        14 => stable::<CopyArgs>(data),
        15 => stable::<ControlResult<CopyOk>>(data),
        16 => stable::<ControlResult<StatusOk>>(data),
        _ => stable::<ControlResult<Nothing>>(data),
    }
});
