//! Filters, signatures and hooks: what the `git` program or the repository's own programs do for a commit.

use super::{CommitError, Sandbox, odd_name, paths};
use crate::relpath::RelPath;
use std::os::unix::ffi::OsStrExt;

fn with_filter(clean: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.git(&["config", "filter.up.clean", clean]);
    sandbox.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    sandbox.git(&["config", "filter.up.required", "true"]);
    sandbox.write(".gitattributes", "*.txt filter=up\n*.wide working-tree-encoding=UTF-16LE-BOM\n");
    sandbox
}

#[test]
fn a_filter_makes_the_blob_and_the_tree_is_clean_afterwards() {
    let sandbox = with_filter("tr a-z A-Z");
    sandbox.write(odd_name(), "odd\n");
    sandbox.write("a.txt", "word\n");
    sandbox.write("x.wide", b"\xff\xfeh\0i\0\n\0");
    sandbox.write("plain", "plain\n");
    let mut plan = sandbox.plan(&[".gitattributes", "a.txt", "x.wide", "plain", "src/b.txt", "src/deep/c.txt"]);
    plan.paths.push(RelPath::new(odd_name().as_bytes()));
    plan.paths.push("planning/plan.txt".into());
    let mut repository = sandbox.open();
    let prepared = repository.prepare(&plan).unwrap();
    repository.finish(&prepared).unwrap();
    sandbox.assert_clean();
    assert_eq!(sandbox.git(&["cat-file", "-p", "HEAD:a.txt"]), "WORD");
    assert_eq!(sandbox.git(&["cat-file", "-p", "HEAD:x.wide"]), "hi");
    assert_eq!(sandbox.git(&["cat-file", "-p", "HEAD:plain"]), "plain");
    let names = paths(&["a.txt", "x.wide", "plain"]);
    assert_eq!(repository.modified(&names).unwrap(), []);
    sandbox.write("a.txt", "words\n");
    assert_eq!(repository.modified(&names).unwrap(), paths(&["a.txt"]));
}

#[test]
fn a_filter_that_fails_fails_the_commit_with_its_words() {
    let sandbox = with_filter("echo no luck >&2; exit 1");
    let head = sandbox.git(&["rev-parse", "HEAD"]);
    sandbox.write("a.txt", "word\n");
    let error = sandbox.commit(&["a.txt"]).unwrap_err();
    assert!(error.to_string().contains("no luck"), "{error}");
    assert_eq!(sandbox.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_filter_that_is_not_configured_is_no_filter() {
    let sandbox = Sandbox::new();
    sandbox.write(".gitattributes", "*.txt filter=absent\n");
    sandbox.write("a.txt", "word\n");
    sandbox.commit(&[".gitattributes", "a.txt"]).unwrap();
    sandbox.assert_clean();
}

fn with_signer(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.script("../signer", script);
    sandbox.git(&["config", "commit.gpgSign", "true"]);
    sandbox.git(&["config", "user.signingKey", "ada"]);
    sandbox.git(&["config", "gpg.program", &sandbox.root().with_file_name("signer").to_string_lossy()]);
    sandbox.write("a.txt", "word\n");
    sandbox
}

#[test]
fn a_signature_is_made_by_the_git_program() {
    let sandbox = with_signer(
        "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED D' >&2\n\
         printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nabc\\n-----END PGP SIGNATURE-----\\n'\n",
    );
    sandbox.open().check(super::now()).unwrap();
    sandbox.commit(&["a.txt"]).unwrap();
    let commit = sandbox.git(&["cat-file", "-p", "HEAD"]);
    assert!(commit.contains("gpgsig -----BEGIN PGP SIGNATURE-----"), "{commit}");
    assert!(commit.contains("author Ada <ada@example.org> 1796007912 +0000"), "{commit}");
    assert!(commit.ends_with("Changes: a\nValidation: b\n\nTask: S00-001"), "{commit}");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_signature_that_fails_moves_nothing() {
    let sandbox = with_signer("#!/bin/sh\necho no pinentry >&2\nexit 2\n");
    let error = sandbox.commit(&["a.txt"]).unwrap_err();
    assert!(error.to_string().contains("no pinentry"), "{error}");
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn signing_without_a_git_program_is_refused_before_anything() {
    let mut sandbox = with_signer("#!/bin/sh\n");
    sandbox.env.insert("PATH".into(), "/nowhere".into());
    let refusal = sandbox.open().check(super::now()).unwrap_err();
    assert!(refusal.to_string().contains("commit.gpgSign is on"), "{refusal}");
}

fn with_hook(name: &str, script: &str) -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.run_hooks = true;
    sandbox.script(&format!(".git/hooks/{name}"), script);
    sandbox.write("a.txt", "word\n");
    sandbox
}

#[test]
fn a_hook_that_is_not_wanted_does_not_run() {
    let mut sandbox = with_hook("pre-commit", "#!/bin/sh\nexit 1\n");
    sandbox.run_hooks = false;
    sandbox.commit(&["a.txt"]).unwrap();
    sandbox.assert_clean();
}

#[test]
fn a_hook_that_fails_fails_the_commit_with_its_output() {
    let sandbox = with_hook("pre-commit", "#!/bin/sh\necho lint says no\nexit 3\n");
    let error = sandbox.commit(&["a.txt"]).unwrap_err();
    assert!(error.to_string().contains("the pre-commit hook") && error.to_string().contains("lint says no"), "{error}");
    assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), " M a.txt");
}

#[test]
fn a_hook_sees_exactly_the_commit() {
    let sandbox = with_hook("pre-commit", "git diff --cached --name-status >../seen\ngit diff --name-only >>../seen\n");
    sandbox.write("src/b.txt", "staged\n");
    sandbox.git(&["add", "src/b.txt"]);
    sandbox.commit(&["a.txt"]).unwrap();
    let seen = sandbox.read("../seen");
    assert_eq!(seen, "M\ta.txt\nsrc/b.txt\n");
}

#[test]
fn a_hook_that_changes_or_stages_a_file_fails_the_commit() {
    for script in
        ["#!/bin/sh\necho more >>a.txt\n", "#!/bin/sh\necho more >>src/b.txt\n", "#!/bin/sh\necho x >n; git add n\n"]
    {
        let sandbox = with_hook("pre-commit", script);
        let error = sandbox.commit(&["a.txt"]).unwrap_err();
        assert!(matches!(error, CommitError::HookChanged { hook: "pre-commit", .. }), "{script}: {error:?}");
        assert_eq!(sandbox.git(&["rev-list", "--count", "HEAD"]), "1");
    }
}

#[test]
fn a_message_hook_may_add_to_the_message_but_not_empty_it() {
    let sandbox = with_hook("commit-msg", "#!/bin/sh\necho Change-Id: I1 >>\"$1\"\n");
    sandbox.script(".git/hooks/prepare-commit-msg", "#!/bin/sh\ntest \"$2\" = message\n");
    sandbox.script(".git/hooks/post-commit", "#!/bin/sh\ngit log -1 --format=%s >../told\nexit 1\n");
    sandbox.commit(&["a.txt"]).unwrap();
    assert_eq!(sandbox.git(&["log", "-1", "--format=%(trailers)"]).trim(), "Task: S00-001\nChange-Id: I1");
    let told = sandbox.read("../told");
    assert_eq!(told, "Change some of the files\n");
    sandbox.assert_clean();
    let sandbox = with_hook("commit-msg", "#!/bin/sh\n: >\"$1\"\n");
    assert!(sandbox.commit(&["a.txt"]).unwrap_err().to_string().contains("emptied"));
}
