//! Reading the files of a prompt: which, in what order, and that none of them lies outside the project.
//!
//! Never puts a prompt together and never writes.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{Absent, Assignment, ContextFault, Document, Kind, PartSize, Parts, PromptFault, Sources, assemble};
use crate::config::Config;
use crate::fs;
use crate::ids::Role;
use crate::plan::Work;
use crate::project::Project;
use crate::strict;

/// The context files unless the configuration lists others: path and whether it must be there.
const DEFAULT_CONTEXT: [(&str, bool); 10] = [
    ("AGENTS.md", true),
    ("README.md", false),
    ("master_prompt.md", false),
    ("roles/common.md", true),
    ("roles/{role}.md", true),
    ("docs/WEB_PROFILE.md", false),
    ("docs/ARCHITECTURE.md", false),
    ("docs/CONTRACTS.md", false),
    ("docs/WORKFLOW.md", false),
    ("docs/AUTOMATION.md", false),
];

/// No file of this size can be part of a prompt, and reading larger ones could use up the memory.
const MOST_BYTES: u64 = 16 << 20;

/// Reads everything the prompt of `assignment` holds, in order.
///
/// A fault of a context file is a configuration fault; of an input, the handoff or the evidence, the task's. Files of the
/// latter three kinds that are not there are no fault but named as absent.
pub fn gather(sources: &Sources<'_>, assignment: &Assignment<'_>) -> Result<Parts, PromptFault> {
    let mut reader = Reader::new(sources.project, sources.workspace);
    reader.context(sources.config, assignment.role).map_err(PromptFault::Configuration)?;
    let evidence = [sources.evidence, sources.verification].into_iter().flatten();
    let evidence = evidence.filter(|_| assignment.work == Work::Review);
    let own = assignment.card.input_paths().map(|path| (Kind::Input, path));
    let own = own.chain(sources.handoff.map(|path| (Kind::Handoff, path)));
    for (kind, path) in own.chain(evidence.map(|path| (Kind::Evidence, path))) {
        reader.add(kind, path, false).map_err(PromptFault::Task)?;
    }
    Ok(reader.parts)
}

/// Checks the context files of every role in `roles`: there, readable as text, and alone within the prompt's budget.
///
/// For use before anything is claimed.
pub fn check_context<'a>(
    project: &Project,
    config: &Config,
    roles: impl Iterator<Item = &'a Role>,
) -> Result<(), PromptFault> {
    for role in roles.collect::<BTreeSet<_>>() {
        let mut reader = Reader::new(project, project.root());
        reader.context(config, role).map_err(PromptFault::Configuration)?;
        let sizes: Vec<PartSize> =
            reader.parts.documents.iter().map(|document| assemble::section(document).size()).collect();
        if sizes.iter().map(|part| part.characters).sum::<usize>() > config.max_prompt_chars {
            return Err(PromptFault::Configuration(ContextFault::over_budget(sizes, config.max_prompt_chars)));
        }
    }
    Ok(())
}

/// Collects parts, each file once under the first path it is asked for by.
struct Reader<'a> {
    root: &'a Path,
    /// Where everything but state and plan is read.
    workspace: &'a Path,
    /// Places no agent should be shown: the machine's configuration, git's own folders, the coordinator's.
    private: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
    parts: Parts,
}

impl<'a> Reader<'a> {
    fn new(project: &'a Project, workspace: &'a Path) -> Self {
        let root = project.root();
        let git = project.git().into_iter().flat_map(|git| [git.own.clone(), git.common.clone()]);
        let private =
            git.chain([root.join(".git"), root.join("runner.local.json"), project.private(), workspace.join(".git")]);
        let private = private.map(|place| place.canonicalize().unwrap_or(place)).collect();
        Self { root, workspace, private, seen: HashSet::new(), parts: Parts::default() }
    }

    fn context(&mut self, config: &Config, role: &Role) -> Result<(), ContextFault> {
        let listed: Vec<(&str, bool)> = match &config.context_files {
            Some(files) => files.iter().map(|file| (file.as_str(), true)).collect(),
            None => DEFAULT_CONTEXT.to_vec(),
        };
        for (file, required) in listed {
            self.add(Kind::Context, &file.replace("{role}", role.as_str()), required)?;
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, path: &str, required: bool) -> Result<(), ContextFault> {
        let looked = match self.look(kind, path) {
            // What an earlier session left must not keep every later one from starting: it is named as unusable instead.
            Err(ContextFault::NotText { .. }) if kind.is_left_by_a_session() => Look::Absent("is not UTF-8 text"),
            Err(ContextFault::TooLarge { .. }) if kind.is_left_by_a_session() => {
                Look::Absent("is too large to be read")
            }
            Err(ContextFault::Private { .. } | ContextFault::Outside { .. }) if kind.is_left_by_a_session() => {
                Look::Absent("lies where no prompt may look")
            }
            looked => looked?,
        };
        match looked {
            Look::Read { resolved, text } => {
                if self.seen.insert(resolved) {
                    self.parts.documents.push(Document { kind, path: path.to_owned(), text });
                }
            }
            Look::Absent(why) if required => return Err(ContextFault::Missing { kind, path: path.to_owned(), why }),
            // An optional context file that is missing is nobody's business.
            Look::Absent(_) if kind == Kind::Context => {}
            Look::Absent(why) => {
                let absent = Absent { kind, path: path.to_owned(), why };
                if !self.parts.absent.iter().any(|other| other.path == absent.path) {
                    self.parts.absent.push(absent);
                }
            }
        }
        Ok(())
    }

    fn look(&self, kind: Kind, path: &str) -> Result<Look, ContextFault> {
        let owned = || path.to_owned();
        if strict::path_problem(path).is_some() {
            return Err(ContextFault::Outside { kind, path: owned() });
        }
        let unreadable = |source| ContextFault::Unreadable { kind, path: owned(), source };
        // What belongs to the coordinator lies in the root, and may be newer there than what is committed.
        let first = path.split('/').next().unwrap_or_default();
        let base = if ["state", "planning"].contains(&first) { self.root } else { self.workspace };
        let resolved = match base.join(path).canonicalize() {
            Ok(resolved) => resolved,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Look::Absent("does not exist"));
            }
            Err(e) => return Err(unreadable(e.into())),
        };
        if !resolved.starts_with(base) {
            return Err(ContextFault::Outside { kind, path: owned() });
        }
        if self.private.iter().any(|place| resolved.starts_with(place)) {
            return Err(ContextFault::Private { kind, path: owned() });
        }
        let metadata = resolved.metadata().map_err(|e| unreadable(e.into()))?;
        if !metadata.is_file() {
            return Ok(Look::Absent(if metadata.is_dir() { "is a folder, not a file" } else { "is no regular file" }));
        }
        if metadata.len() > MOST_BYTES {
            return Err(ContextFault::TooLarge { kind, path: owned(), bytes: metadata.len() });
        }
        let text = String::from_utf8(fs::read(&resolved).map_err(|e| unreadable(e.into()))?).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            ContextFault::NotText { kind, path: owned(), line: good.split(|byte| *byte == b'\n').count() }
        })?;
        Ok(Look::Read { resolved, text: with_plain_line_ends(text) })
    }
}

/// What stands at a path.
enum Look {
    Read { resolved: PathBuf, text: String },
    Absent(&'static str),
}

fn with_plain_line_ends(text: String) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::assemble::tests::{agent, card};
    use super::*;

    struct Sample(tempfile::TempDir);

    impl Sample {
        fn new() -> Self {
            let sample = Self(tempfile::tempdir().unwrap());
            for path in ["AGENTS.md", "roles/common.md", "roles/backend.md", "planning/stages/S00.json"] {
                sample.put(path, path.as_bytes());
            }
            sample
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn put(&self, path: &str, bytes: &[u8]) {
            fs::replace(&self.path(path), bytes).unwrap();
        }

        fn link(&self, path: &str, target: &str) {
            std::os::unix::fs::symlink(target, self.path(path)).unwrap();
        }

        fn gather(&self, config: &Config, inputs: &[&str], work: Work) -> Result<Parts, String> {
            let project = Project::open(self.0.path()).unwrap();
            let mut card = card();
            card.inputs = inputs.iter().map(ToString::to_string).collect();
            let (handoff, evidence) = (Some("state/handoffs/h.md"), Some("state/evidence/e.md"));
            let sources =
                Sources { project: &project, workspace: project.root(), config, handoff, evidence, verification: None };
            let agent = agent();
            let assignment =
                Assignment { agent: &agent, role: &card.role, card: &card, work, runner_bin: Path::new("/bin/runner") };
            gather(&sources, &assignment).map_err(|fault| match fault {
                PromptFault::Configuration(fault) => format!("configuration: {fault}"),
                PromptFault::Task(fault) => format!("task: {fault}"),
            })
        }

        fn fault(&self, inputs: &[&str]) -> String {
            self.gather(&Config::default(), inputs, Work::Claim).unwrap_err()
        }
    }

    fn paths(parts: &Parts) -> Vec<&str> {
        parts.documents.iter().map(|document| document.path.as_str()).collect()
    }

    #[test]
    fn files_come_in_order_and_each_once() {
        let sample = Sample::new();
        for path in ["docs/CONTRACTS.md", "README.md", "docs/a.md", "state/handoffs/h.md", "state/evidence/e.md"] {
            sample.put(path, b"x");
        }
        sample.link("docs/again.md", "a.md");
        let inputs =
            ["docs/a.md (a note)", "./docs/a.md", "docs/again.md", "README.md", "docs/none.md", "docs/none.md", "docs"];
        let parts = sample.gather(&Config::default(), &inputs, Work::Review).unwrap();
        assert_eq!(
            paths(&parts),
            [
                "AGENTS.md",
                "README.md",
                "roles/common.md",
                "roles/backend.md",
                "docs/CONTRACTS.md",
                "docs/a.md",
                "state/handoffs/h.md",
                "state/evidence/e.md"
            ]
        );
        let absent: Vec<_> = parts.absent.iter().map(|absent| (absent.path.as_str(), absent.why)).collect();
        assert_eq!(absent, [("docs/none.md", "does not exist"), ("docs", "is a folder, not a file")]);
    }

    #[test]
    fn an_executor_gets_no_evidence_and_a_lost_handoff_is_named() {
        let sample = Sample::new();
        sample.put("state/evidence/e.md", b"x");
        let parts = sample.gather(&Config::default(), &[], Work::Claim).unwrap();
        assert_eq!(paths(&parts), ["AGENTS.md", "roles/common.md", "roles/backend.md"]);
        assert_eq!(
            parts.absent,
            [Absent { kind: Kind::Handoff, path: "state/handoffs/h.md".to_owned(), why: "does not exist" }]
        );
    }

    #[test]
    fn line_ends_become_plain() {
        let sample = Sample::new();
        sample.put("AGENTS.md", b"a\r\nb\rc\n\r\n");
        let parts = sample.gather(&Config::default(), &[], Work::Claim).unwrap();
        assert_eq!(parts.documents[0].text, "a\nb\nc\n\n");
    }

    #[test]
    fn a_required_file_that_is_missing_is_a_configuration_fault() {
        let sample = Sample::new();
        fs::remove(&sample.path("roles/backend.md")).unwrap();
        let wanted = "context file roles/backend.md does not exist; write it, or name other `context_files` in runner.local.json";
        assert_eq!(sample.fault(&[]), format!("configuration: {wanted}"));
        let project = Project::open(sample.0.path()).unwrap();
        let role = card().role;
        let check = |config: &Config| check_context(&project, config, [&role].into_iter()).map_err(|e| e.to_string());
        assert_eq!(check(&Config::default()), Err(wanted.to_owned()));
        let config = Config { context_files: Some(vec!["AGENTS.md".to_owned()]), ..Config::default() };
        assert_eq!(check(&config), Ok(()));
    }

    #[test]
    fn configured_context_files_stand_in_for_the_default_list() {
        let sample = Sample::new();
        let files = ["roles/{role}.md", "AGENTS.md"].map(str::to_owned).to_vec();
        let config = Config { context_files: Some(files), ..Config::default() };
        assert_eq!(paths(&sample.gather(&config, &[], Work::Claim).unwrap()), ["roles/backend.md", "AGENTS.md"]);
    }

    #[test]
    fn context_that_alone_is_over_the_budget_is_found_before_any_claim() {
        let sample = Sample::new();
        sample.put("README.md", "ä".repeat(80_000).as_bytes());
        sample.put("AGENTS.md", &[b'x'; 300]);
        let project = Project::open(sample.0.path()).unwrap();
        let error = check_context(&project, &Config::default(), [&card().role].into_iter()).unwrap_err();
        assert!(matches!(error, PromptFault::Configuration(_)));
        let text = error.to_string();
        assert!(text.contains("`max_prompt_chars` allows 80000"), "{text}");
        assert!(text.find("README.md 80").unwrap() < text.find("AGENTS.md 3").unwrap(), "{text}");
    }

    #[test]
    fn a_path_that_leaves_the_root_is_named() {
        let sample = Sample::new();
        let outside = tempfile::tempdir().unwrap();
        fs::replace(&outside.path().join("secret"), b"s").unwrap();
        sample.link("link.md", outside.path().join("secret").to_str().unwrap());
        sample.link("folder", outside.path().to_str().unwrap());
        for path in ["../x", "/etc/hostname", "link.md", "folder/secret"] {
            assert_eq!(
                sample.fault(&[path]),
                format!(
                    "task: input {path} leads out of the project's root; name a file below it that is no link to the outside"
                )
            );
        }
        fs::remove(&sample.path("AGENTS.md")).unwrap();
        sample.link("AGENTS.md", "link.md");
        assert!(sample.fault(&[]).starts_with("configuration: context file AGENTS.md leads out"));
    }

    #[test]
    fn the_machines_secrets_are_no_input() {
        let sample = Sample::new();
        sample.put("runner.local.json", b"{}");
        sample.put(".git/config", b"");
        sample.link("innocent.md", "runner.local.json");
        for path in ["innocent.md", "runner.local.json", ".git/config"] {
            assert!(
                sample.fault(&[path]).starts_with(&format!("task: input {path} lies where this machine")),
                "{path}"
            );
        }
    }

    #[test]
    fn text_that_is_no_utf_8_is_named_with_its_line() {
        let sample = Sample::new();
        sample.put("docs/a.md", b"one\ntwo \xe9\n");
        assert_eq!(
            sample.fault(&["docs/a.md"]),
            "task: input docs/a.md is not UTF-8 text (line 2); convert it or take it out"
        );
    }

    #[test]
    fn a_file_no_prompt_could_hold_is_not_even_read() {
        let sample = Sample::new();
        sample.put("docs/a.md", b"");
        let file = std::fs::File::options().write(true).open(sample.path("docs/a.md")).unwrap();
        file.set_len(1 << 40).unwrap();
        assert!(sample.fault(&["docs/a.md"]).contains("input docs/a.md has 1099511627776 bytes"));
    }
}
