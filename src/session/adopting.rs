//! This process as child subreaper: descendants whose parent ends become its children (`PR_SET_CHILD_SUBREAPER`, `prctl(2)`).

/// This process is child subreaper for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Adopting {
    #[cfg(target_os = "linux")]
    was_before: bool,
}

#[cfg(target_os = "linux")]
impl Adopting {
    /// From now on; it is undone when the value is dropped, unless it was so before.
    pub(crate) fn begin() -> Self {
        use rustix::process::{child_subreaper, getpid, set_child_subreaper};
        let was_before = child_subreaper().is_ok_and(|setting| setting.is_some());
        // Every kernel since 3.4 knows it, and there is no other reason to refuse (prctl(2)).
        let _set = set_child_subreaper(Some(getpid()));
        Self { was_before }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Adopting {
    fn drop(&mut self) {
        if !self.was_before {
            let _unset = rustix::process::set_child_subreaper(None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Adopting {
    /// From now on; it is undone when the value is dropped, unless it was so before.
    pub(crate) fn begin() -> Self {
        Self {}
    }
}
