//! Copies a whole sandbox, so that a project laid down once can be run many times.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::Project;

impl Project {
    /// A copy of the project and of what its agents left outside of it; the agent has to be named again.
    pub fn copy(&self) -> Self {
        // Memory, where there is some: a process that is killed loses nothing it has written, so no disk is needed.
        let memory = Path::new("/dev/shm");
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("runner-e2e-");
        let base = builder.tempdir_in(memory).or_else(|_| builder.tempdir()).expect("a temporary folder");
        copy_folder(self.base.path(), base.path());
        let root = base.path().canonicalize().expect("the folder is there").join("project");
        Self { base, root, git: self.git }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be read").filter_map(Result::ok) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("an entry has a kind");
        if kind.is_dir() {
            copy_folder(&source, &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).expect("a link can be read"), &target).expect("a link can be made");
        } else if kind.is_file() {
            fs::copy(&source, &target).expect("a file can be copied");
        }
    }
}
