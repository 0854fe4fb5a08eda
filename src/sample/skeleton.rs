//! The skeleton of a project: what a person fills with a plan of their own.
//!
//! Owns which files it has and that a second time changes nothing. Never overwrites; `.gitignore` is only added to.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{EXAMPLE_CONFIG, IGNORE_LINES, STATE, SampleError, is_there};
use crate::fs;

const FILES: [(&str, &str); 6] = [
    ("AGENTS.md", include_str!("skeleton/AGENTS.md")),
    ("roles/common.md", include_str!("skeleton/common.md")),
    ("roles/executor.md", include_str!("skeleton/executor.md")),
    ("roles/reviewer.md", include_str!("skeleton/reviewer.md")),
    ("runner.example.json", EXAMPLE_CONFIG),
    ("state/state.json", STATE),
];

/// The example plan, laid only where there is no plan at all.
const PLAN: [(&str, &str); 2] = [
    ("planning/stages/S00.json", include_str!("skeleton/S00.json")),
    ("planning/tasks/S00-001.json", include_str!("skeleton/S00-001.json")),
];

/// What became of one file of the skeleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was not there and was written.
    Made,
    /// It was there and is as it was.
    Kept,
    /// It was there and lines were added at its end.
    Extended,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Made => "made",
            Self::Kept => "kept",
            Self::Extended => "extended",
        })
    }
}

/// One file or folder of the skeleton, named from the root, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Laid {
    /// For example `roles/common.md`; `planning/` if there was a plan already.
    pub name: String,
    /// Whether it was written.
    pub how: How,
}

impl fmt::Display for Laid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}  {}", self.how, self.name)
    }
}

/// Lays the skeleton into `root` and says of each file, in alphabetical order, what became of it.
///
/// The example stage and card are left out where any stage or card exists.
pub fn lay_down_skeleton(root: &Path) -> Result<Vec<Laid>, SampleError> {
    // First, because it is the only file that may be refused: nothing is laid down then.
    let mut laid = vec![lay_ignore_lines(root)?];
    for (name, text) in FILES {
        laid.push(lay(root, name, text)?);
    }
    if has_plan(root)? {
        laid.push(Laid { name: "planning/".to_owned(), how: How::Kept });
    } else {
        for (name, text) in PLAN {
            laid.push(lay(root, name, text)?);
        }
    }
    laid.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(laid)
}

/// Writes one file if nothing is there.
fn lay(root: &Path, name: &str, text: &str) -> Result<Laid, SampleError> {
    let path = root.join(name);
    let how = if is_there(&path)? {
        How::Kept
    } else {
        fs::replace(&path, text.as_bytes())?;
        How::Made
    };
    Ok(Laid { name: name.to_owned(), how })
}

/// Whether `root` has any stage or task card.
fn has_plan(root: &Path) -> Result<bool, SampleError> {
    for folder in ["planning/stages", "planning/tasks"] {
        let files = fs::list(&root.join(folder))?.unwrap_or_default();
        if files.iter().any(|file| file.extension().is_some_and(|extension| extension == "json")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Adds the missing ones of [`IGNORE_LINES`] to `.gitignore`.
fn lay_ignore_lines(root: &Path) -> Result<Laid, SampleError> {
    let path = root.join(".gitignore");
    let laid = |how| Laid { name: ".gitignore".to_owned(), how };
    if path.is_symlink() {
        return Err(SampleError::LinkedIgnoreFile { path });
    }
    let present = fs::read_if_present(&path)?;
    let old = present.as_deref().unwrap_or_default();
    let missing: Vec<_> = IGNORE_LINES.into_iter().filter(|line| !ignores(old, line)).collect();
    if missing.is_empty() {
        return Ok(laid(How::Kept));
    }
    let mut new = old.to_vec();
    if !new.is_empty() && !new.ends_with(b"\n") {
        new.push(b'\n');
    }
    for line in missing {
        new.extend_from_slice(line.as_bytes());
        new.push(b'\n');
    }
    fs::replace_with_mode(&path, &new, mode_of(&path))?;
    Ok(laid(if present.is_some() { How::Extended } else { How::Made }))
}

/// Whether one line of `text` is `wanted`, perhaps anchored to the root.
fn ignores(text: &[u8], wanted: &str) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii_end();
        line.strip_prefix(b"/").unwrap_or(line) == wanted.as_bytes()
    })
}

/// The permission bits a file has, or the usual ones for a new file.
fn mode_of(path: &Path) -> u32 {
    path.metadata().map_or(0o644, |metadata| metadata.permissions().mode() & 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(laid: &[Laid], how: How) -> Vec<&str> {
        laid.iter().filter(|one| one.how == how).map(|one| one.name.as_str()).collect()
    }

    #[test]
    fn an_empty_folder_gets_the_whole_skeleton_and_a_second_time_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let first = lay_down_skeleton(dir.path()).unwrap();
        let all = [
            ".gitignore",
            "AGENTS.md",
            "planning/stages/S00.json",
            "planning/tasks/S00-001.json",
            "roles/common.md",
            "roles/executor.md",
            "roles/reviewer.md",
            "runner.example.json",
            "state/state.json",
        ];
        assert_eq!(names(&first, How::Made), all);
        let second = lay_down_skeleton(dir.path()).unwrap();
        assert_eq!(names(&second, How::Made), [""; 0]);
        assert!(second.iter().all(|one| one.how == How::Kept), "{second:?}");
    }

    #[test]
    fn the_skeleton_has_a_command_to_replace_and_sets_violations_aside() {
        let dir = tempfile::tempdir().unwrap();
        lay_down_skeleton(dir.path()).unwrap();
        let config: serde_json::Value = fs::read_json(&dir.path().join("runner.example.json")).unwrap();
        assert!(config["argv"][0].as_str().unwrap().contains("REPLACE_"));
        assert_eq!(config["on_violation"], "set_aside");
    }

    #[test]
    fn a_file_that_is_there_is_kept_even_a_link_that_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::replace(&dir.path().join("AGENTS.md"), b"mine").unwrap();
        fs::make_folder(&dir.path().join("roles")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("roles/common.md")).unwrap();
        let laid = lay_down_skeleton(dir.path()).unwrap();
        assert_eq!(names(&laid, How::Kept), ["AGENTS.md", "roles/common.md"]);
        assert_eq!(fs::read(&dir.path().join("AGENTS.md")).unwrap(), b"mine");
        assert!(dir.path().join("roles/common.md").is_symlink());
    }

    #[test]
    fn a_plan_that_is_there_gets_no_example_card() {
        let dir = tempfile::tempdir().unwrap();
        fs::replace(&dir.path().join("planning/tasks/X-1.json"), b"{}").unwrap();
        let laid = lay_down_skeleton(dir.path()).unwrap();
        assert_eq!(names(&laid, How::Kept), ["planning/"]);
        assert!(!dir.path().join("planning/stages").exists());
    }

    #[test]
    fn missing_ignore_lines_are_added_at_the_end_and_the_others_stay() {
        for (before, after, how) in [
            ("a", "a\nstate/runs/\nstate/commit_messages/\nrunner.local.json\n.runner.lock\n", How::Extended),
            (
                "/state/runs/\r\nb\n",
                "/state/runs/\r\nb\nstate/commit_messages/\nrunner.local.json\n.runner.lock\n",
                How::Extended,
            ),
            (
                "runner.local.json\n.runner.lock\nstate/runs/\nstate/commit_messages/",
                "runner.local.json\n.runner.lock\nstate/runs/\nstate/commit_messages/",
                How::Kept,
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(".gitignore");
            fs::replace(&path, before.as_bytes()).unwrap();
            let laid = lay_down_skeleton(dir.path()).unwrap();
            assert_eq!(laid[0], Laid { name: ".gitignore".to_owned(), how });
            assert_eq!(String::from_utf8(fs::read(&path).unwrap()).unwrap(), after);
        }
    }

    #[test]
    fn a_linked_ignore_file_is_refused_before_anything_is_laid_down() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(".gitignore")).unwrap();
        let error = lay_down_skeleton(dir.path()).unwrap_err();
        assert!(error.to_string().contains("replace it with a regular file"), "{error}");
        assert_eq!(fs::list(dir.path()).unwrap().unwrap(), [dir.path().join(".gitignore")]);
    }
}
