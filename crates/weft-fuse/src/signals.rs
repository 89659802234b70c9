//! Whether somebody who waits has been interrupted.
//!
//! The kernel tells a file system so (FUSE_INTERRUPT), but fuser 0.18 answers by itself that it
//! knows no such thing. From then on the kernel lets no signal end a wait, SIGKILL neither. So who
//! waits for long here is looked up in the process table.

/// Whether a thread has a signal that it would take now, or is gone. One that we cannot see, of
/// another namespace, is taken to be waiting still.
pub fn is_interrupted(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    match std::fs::read_to_string(format!("/proc/{thread}/status")) {
        Ok(status) => has_signal(&status),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether a signal is pending, for the thread or its process, that is not blocked: one that would
/// be ignored is not kept (proc_pid_status(5)).
fn has_signal(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pending signal counts, the thread's or the process', unless it is blocked; who is gone
    /// waits for nothing.
    #[test]
    fn pending_signals() {
        let status = |own: &str, shared: &str, blocked: &str| {
            format!("Name:\tx\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n")
        };
        let none = "0000000000000000";
        assert!(!has_signal(&status(none, none, "ffffffffffffffff")));
        assert!(has_signal(&status("0000000000000100", none, none)));
        assert!(has_signal(&status(none, "0000000000004000", "0000000000000100")));
        assert!(!has_signal(&status(none, "0000000000004000", "0000000000004000")));
        assert!(!is_interrupted(std::process::id()) && !is_interrupted(0));
        // No process has a number beyond the kernel's largest.
        assert!(is_interrupted(u32::MAX >> 1));
    }
}
