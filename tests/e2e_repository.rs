//! A repository in which no commit could be made is refused before any claim, with what to do about it.

mod support;

use support::{Project, assert_says_one};

#[test]
fn a_dirty_tree_is_listed_with_what_to_do() {
    let project = Project::new();
    project.write("README.md", "changed\n");
    project.write("lib/new.txt", "new\n");
    project.refuses(&[], &["README.md", "lib/new.txt", "commit"]);
}

#[test]
fn a_staged_change_counts_as_dirty() {
    let project = Project::new();
    project.write("README.md", "changed\n");
    project.git(&["add", "README.md"]);
    project.write("README.md", "# Sample\n");
    project.refuses(&[], &["README.md"]);
}

#[test]
fn a_detached_head_is_refused() {
    let project = Project::new();
    project.git(&["checkout", "-q", "--detach"]);
    project.refuses(&[], &["detached"]);
}

#[test]
fn a_repository_without_a_commit_is_refused() {
    let project = Project::new();
    project.remove_folder(".git");
    project.git(&["init", "-q", "-b", "main"]);
    project.git(&["config", "user.name", "Owner"]);
    project.git(&["config", "user.email", "owner@example.invalid"]);
    project.refuses(&[], &["commit"]);
}

#[test]
fn a_folder_that_is_no_repository_is_refused() {
    let project = Project::new();
    project.remove_folder(".git");
    let root = project.root().to_str().unwrap().to_owned();
    let reason = project.refuses(&["--root", &root], &["git"]);
    assert_says_one(&reason, &["git init", "git_commits"]);
}

#[test]
fn a_root_that_is_not_the_top_of_its_work_tree_is_refused() {
    let project = Project::new();
    project.remove_folder(".git");
    let above = project.outside("project/..").display().to_string();
    project.git(&["init", "-q", "-b", "main", &above]);
    let root = project.root().to_str().unwrap().to_owned();
    project.refuses(&["--root", &root], &["git"]);
}

#[test]
fn a_merge_in_progress_is_refused() {
    let project = Project::new();
    project.write(".git/MERGE_HEAD", format!("{}\n", project.head()));
    project.refuses(&[], &["merge"]);
}

#[test]
fn a_missing_identity_is_refused_with_the_commands_to_set_it() {
    let project = Project::new();
    project.git(&["config", "--unset", "user.name"]);
    project.git(&["config", "--unset", "user.email"]);
    project.refuses(&[], &["user.name", "user.email"]);
}

#[test]
fn a_missing_ignore_line_is_printed() {
    for line in ["state/runs/", "state/commit_messages/", "runner.local.json"] {
        let project = Project::new();
        let text: Vec<String> = project.read(".gitignore").lines().filter(|l| *l != line).map(str::to_owned).collect();
        project.write(".gitignore", text.join("\n") + "\n");
        project.git(&["add", ".gitignore"]);
        project.git(&["commit", "-q", "-m", "Forget a line"]);
        project.refuses(&[], &[line, ".gitignore"]);
    }
}

#[test]
fn the_lock_file_needs_no_ignore_line() {
    let project = Project::builder()
        .stage("S00", 1)
        .file(".gitignore", "state/runs/\nstate/commit_messages/\nrunner.local.json\n")
        .build();
    project.run(&[]).complete();
    assert!(!project.git(&["ls-files"]).contains(".runner.lock"));
}
