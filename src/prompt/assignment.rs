//! The words a prompt begins with: who the agent is, what it may do, and the exact commands that end its session.

use std::path::Path;

use super::Assignment;
use crate::plan::Work;

/// The whole block. The first character is a letter: some agents take a leading `/` for a command.
pub(super) fn text(assignment: &Assignment<'_>) -> String {
    let Assignment { agent, role, card, work, .. } = assignment;
    let (id, title) = (&card.id, card.title.split_whitespace().collect::<Vec<_>>().join(" "));
    let (asked, exits) = match work {
        Work::Claim => ("execute it", executor(assignment)),
        Work::Review => ("review what another agent made of it", reviewer(assignment)),
    };
    format!(
        "You are agent {agent} in the role `{role}`. Your task is {id}, \"{title}\"; you are asked to {asked} \
         (action: {work}).\n\n{}\n{exits}\n{}\n{}",
        rules(assignment),
        blocker(assignment),
        message(assignment),
    )
}

fn rules(assignment: &Assignment<'_>) -> String {
    let Assignment { agent, work, .. } = assignment;
    let changes = match work {
        Work::Claim => "Change only files that match a glob of the card's `scope`. Any other change voids your work.",
        Work::Review => "Change nothing you review: read it, run its checks, and judge. A change voids your verdict.",
    };
    format!(
        "## Rules\n\n\
         - The session is fresh. Everything you need is in this text and in the project's files; nothing else of an \
         earlier session is left.\n\
         - The task is already yours. Work on no other one, and start no other agent.\n\
         - Read all of this text first: the context files, then the inputs, and last the task's card.\n\
         - {changes}\n\
         - Apart from that you may leave files whose names begin with `{agent}` in `state/commit_messages/`, \
         `state/evidence/`, `state/handoffs/` and `state/issues/`. All else in `state/`, `planning/` and `.git` is kept by \
         the coordinator.\n\
         - Never run `git add`, `git commit`, `git reset` or `git push`. The coordinator commits when you are done.\n\
         - End with exactly one of the commands below, then exit at once and leave nothing running.\n"
    )
}

fn executor(assignment: &Assignment<'_>) -> String {
    let Assignment { agent, .. } = assignment;
    let submit = command(assignment, "submit");
    format!(
        "## When the outcome is reached\n\n\
         Write what you did and what your checks showed to `state/evidence/{agent}.md`, write the commit message (see \
         below), then run\n\n    {submit} --evidence state/evidence/{agent}.md\n\n\
         `--evidence -` takes the text from standard input instead. If nothing had to be changed, add \
         `--no-change WHY`.\n"
    )
}

fn reviewer(assignment: &Assignment<'_>) -> String {
    let Assignment { agent, .. } = assignment;
    let (approve, reject) = (command(assignment, "approve"), command(assignment, "reject"));
    format!(
        "## When you have judged\n\n\
         Hold the work against the card's outcome, acceptance and checks; run the checks yourself. Write the commit message \
         (see below). If all of it holds, write what you checked to `state/evidence/{agent}.md` and run\n\n    \
         {approve} --evidence state/evidence/{agent}.md\n\n\
         (`--evidence -` takes the text from standard input instead.) If anything does not hold, run\n\n    \
         {reject} --reason TEXT\n\n\
         where TEXT names each fault and how to see it: it is all the next executor learns from you. `--reason-file FILE` \
         takes it from a file.\n"
    )
}

fn blocker(assignment: &Assignment<'_>) -> String {
    let Assignment { agent, .. } = assignment;
    let escalate = command(assignment, "escalate");
    format!(
        "## When something you may not or cannot change stops you\n\n\
         Do not work around it. Write one JSON object to `state/issues/{agent}.json` and run\n\n    \
         {escalate} --issue state/issues/{agent}.json\n\n\
         (`--issue -` takes it from standard input.) `title` and `reason` are required and describe this one blocker. \
         `role`, `reviewer_role`, `scope`, `outcome`, `steps`, `acceptance`, `checks` and `requirements` may describe the \
         task that removes it, in the form the card below has. A file outside your scope that has to change is a blocker too: \
         name its path. `\"requires_user_input\": true` says that only a person can \
         remove it. Leave the blocker to the next session and exit.\n"
    )
}

fn message(assignment: &Assignment<'_>) -> String {
    let Assignment { agent, .. } = assignment;
    format!(
        "## The commit message\n\n\
         Before `submit`, `approve` or `reject`, write `state/commit_messages/{agent}.txt`: a subject of 15 to 100 \
         characters in English, in the imperative; a blank line; a paragraph that begins with `Changes:`; a paragraph that \
         begins with `Validation:`. Say only what was really changed and checked. The flags `--subject`, `--changes` and \
         `--validation` of the same command can be given in place of the file.\n"
    )
}

fn command(assignment: &Assignment<'_>, verb: &str) -> String {
    format!("{} task {verb} {}", program(assignment.runner_bin), assignment.card.id)
}

/// The program as a shell takes it. A path that is no text cannot be shown; the session's environment holds it too.
fn program(path: &Path) -> String {
    let Some(text) = path.to_str() else { return "\"$RUNNER_BIN\"".to_owned() };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::super::assemble::tests::{agent, card};
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;

    fn block(work: Work) -> String {
        let (agent, card) = (agent(), card());
        text(&Assignment {
            agent: &agent,
            role: &card.role,
            card: &card,
            work,
            runner_bin: Path::new("/opt/my tools/runner"),
        })
    }

    #[test]
    fn an_executor_learns_its_rules_and_ways_out() {
        insta::assert_snapshot!(block(Work::Claim), @r#"
        You are agent auto-backend-0123456789ab in the role `backend`. Your task is S00-001, "Build it"; you are asked to execute it (action: claim).

        ## Rules

        - The session is fresh. Everything you need is in this text and in the project's files; nothing else of an earlier session is left.
        - The task is already yours. Work on no other one, and start no other agent.
        - Read all of this text first: the context files, then the inputs, and last the task's card.
        - Change only files that match a glob of the card's `scope`. Any other change voids your work.
        - Apart from that you may leave files whose names begin with `auto-backend-0123456789ab` in `state/commit_messages/`, `state/evidence/`, `state/handoffs/` and `state/issues/`. All else in `state/`, `planning/` and `.git` is kept by the coordinator.
        - Never run `git add`, `git commit`, `git reset` or `git push`. The coordinator commits when you are done.
        - End with exactly one of the commands below, then exit at once and leave nothing running.

        ## When the outcome is reached

        Write what you did and what your checks showed to `state/evidence/auto-backend-0123456789ab.md`, write the commit message (see below), then run

            '/opt/my tools/runner' task submit S00-001 --evidence state/evidence/auto-backend-0123456789ab.md

        `--evidence -` takes the text from standard input instead. If nothing had to be changed, add `--no-change WHY`.

        ## When something you may not or cannot change stops you

        Do not work around it. Write one JSON object to `state/issues/auto-backend-0123456789ab.json` and run

            '/opt/my tools/runner' task escalate S00-001 --issue state/issues/auto-backend-0123456789ab.json

        (`--issue -` takes it from standard input.) `title` and `reason` are required and describe this one blocker. `role`, `reviewer_role`, `scope`, `outcome`, `steps`, `acceptance`, `checks` and `requirements` may describe the task that removes it, in the form the card below has. A file outside your scope that has to change is a blocker too: name its path. `"requires_user_input": true` says that only a person can remove it. Leave the blocker to the next session and exit.

        ## The commit message

        Before `submit`, `approve` or `reject`, write `state/commit_messages/auto-backend-0123456789ab.txt`: a subject of 15 to 100 characters in English, in the imperative; a blank line; a paragraph that begins with `Changes:`; a paragraph that begins with `Validation:`. Say only what was really changed and checked. The flags `--subject`, `--changes` and `--validation` of the same command can be given in place of the file.
        "#);
    }

    #[test]
    fn a_reviewer_gets_its_own_ways_out_and_not_the_executors() {
        let block = block(Work::Review);
        for verb in ["approve", "reject", "escalate"] {
            assert!(block.contains(&format!("    '/opt/my tools/runner' task {verb} S00-001 --")), "{block}");
        }
        assert!(!block.contains("task submit") && block.contains("(action: review)"));
    }

    #[test]
    fn the_program_is_quoted_only_where_a_shell_needs_it() {
        for (path, wanted) in [
            ("/usr/bin/runner", "/usr/bin/runner"),
            ("/a b/runner", "'/a b/runner'"),
            ("/it's/runner", r"'/it'\''s/runner'"),
            ("/$HOME/runner", "'/$HOME/runner'"),
        ] {
            assert_eq!(program(Path::new(path)), wanted);
        }
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/\xff/runner"));
        assert_eq!(program(odd), "\"$RUNNER_BIN\"");
    }

    /// The word a POSIX shell makes of a word of plain characters, single quotes and escaped quotes.
    fn unquoted(word: &str) -> String {
        if !word.starts_with('\'') {
            return word.to_owned();
        }
        word[1..word.len() - 1].split(r"'\''").collect::<Vec<_>>().join("'")
    }

    proptest! {
        #[test]
        fn quoting_loses_nothing(path in "/[ -~ä]{0,20}") {
            let word = program(Path::new(&path));
            prop_assert_eq!(unquoted(&word), path);
        }
    }
}
