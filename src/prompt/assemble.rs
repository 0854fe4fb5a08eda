//! Putting a prompt together: a pure function of what was read. The same values give the same text.

use super::{Assignment, ContextFault, Document, Kind, PartSize, Parts, Prompt, PromptFault, assignment};
use crate::relpath::RelPath;

/// Makes the prompt: the assignment, the files in their order, what is absent, and last the task with its row.
///
/// `row_json` is the task's row as the agent may see it. A text of more than `max_chars` Unicode characters is a fault;
/// nothing is cut.
pub fn assemble(
    assignment: &Assignment<'_>,
    parts: &Parts,
    row_json: &str,
    max_chars: usize,
) -> Result<Prompt, PromptFault> {
    let mut sections = vec![Section::new("assignment".to_owned(), assignment::text(assignment))];
    sections.extend(parts.documents.iter().map(section));
    if !parts.absent.is_empty() {
        sections.push(absent(parts));
    }
    sections.push(packet(assignment, row_json));

    let sizes: Vec<PartSize> = sections.iter().map(Section::size).collect();
    if sizes.iter().map(|part| part.characters).sum::<usize>() <= max_chars {
        return Ok(Prompt { text: sections.into_iter().map(|section| section.text).collect(), sizes });
    }
    let context = parts.documents.iter().filter(|document| document.kind == Kind::Context);
    let context: usize = context.map(|document| section(document).size().characters).sum();
    let fault = ContextFault::over_budget(sizes, max_chars);
    Err(if context > max_chars { PromptFault::Configuration(fault) } else { PromptFault::Task(fault) })
}

/// A piece of the prompt and what it is called in a list of sizes.
pub(super) struct Section {
    part: String,
    text: String,
}

impl Section {
    fn new(part: String, text: String) -> Self {
        Self { part, text }
    }

    pub(super) fn size(&self) -> PartSize {
        PartSize { part: self.part.clone(), characters: self.text.chars().count() }
    }
}

/// A file under a heading with its path.
pub(super) fn section(document: &Document) -> Section {
    let title = match document.kind {
        Kind::Context => "Context file",
        Kind::Input => "Input",
        Kind::Handoff => "Handoff",
        Kind::Evidence => "Evidence",
    };
    let end = if document.text.ends_with('\n') { "" } else { "\n" };
    let text = format!("\n## {title}: {}\n\n{}{end}", shown(&document.path), document.text);
    Section::new(document.name(), text)
}

impl Document {
    /// What it is called among the prompt's parts.
    pub fn name(&self) -> String {
        named(self.kind, &self.path)
    }
}

fn absent(parts: &Parts) -> Section {
    let lines = parts.absent.iter().map(|absent| format!("- {} {}\n", named(absent.kind, &absent.path), absent.why));
    let text = format!("\n## Named in the task but not there\n\n{}", lines.collect::<String>());
    Section::new("absent files".to_owned(), text)
}

fn packet(assignment: &Assignment<'_>, row_json: &str) -> Section {
    let card = assignment.card;
    let text = format!(
        "\n## Task: {}\n\nThe card:\n\n```json\n{}```\n\nWhere it stands:\n\n```json\n{}\n```\n",
        card.id,
        card.to_json(),
        row_json.trim_end()
    );
    Section::new("task".to_owned(), text)
}

fn named(kind: Kind, path: &str) -> String {
    format!("{} {}", kind.name(), shown(path))
}

/// The path on one line, whatever is in it.
fn shown(path: &str) -> String {
    RelPath::from(path).to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use super::*;
    use crate::ids::AgentId;
    use crate::plan::{TaskCard, Work};
    use crate::prompt::Absent;
    use proptest::prelude::*;

    pub(in crate::prompt) fn agent() -> AgentId {
        "auto-backend-0123456789ab".parse().unwrap()
    }

    pub(in crate::prompt) fn card() -> TaskCard {
        let json = br#"{"id": "S00-001", "stage": "S00", "title": "Build it", "role": "backend", "reviewer_role": "qa",
            "scope": ["src/*"], "outcome": "It is there."}"#;
        TaskCard::parse(Path::new("x"), json).unwrap()
    }

    fn made(work: Work, parts: &Parts, max_chars: usize) -> Result<Prompt, PromptFault> {
        let (agent, card) = (agent(), card());
        let runner_bin = Path::new("/opt/runner");
        let assignment = Assignment { agent: &agent, role: &card.role, card: &card, work, runner_bin };
        assemble(&assignment, parts, "{\n  \"status\": \"in_progress\"\n}\n", max_chars)
    }

    fn document(kind: Kind, path: &str, text: &str) -> Document {
        Document { kind, path: path.to_owned(), text: text.to_owned() }
    }

    fn sample() -> Parts {
        Parts {
            documents: vec![
                document(Kind::Context, "AGENTS.md", "/compact is a command to some agents"),
                document(Kind::Input, "docs/a\nb.md", "Input.\n"),
                document(Kind::Handoff, "state/handoffs/h.md", ""),
            ],
            absent: vec![Absent { kind: Kind::Input, path: "docs/none.md".to_owned(), why: "does not exist" }],
        }
    }

    #[test]
    fn the_files_stand_between_the_assignment_and_the_task() {
        let prompt = made(Work::Claim, &sample(), 80_000).unwrap();
        let (_, rest) = prompt.text.split_once("\n## Context file").unwrap();
        insta::assert_snapshot!(rest, @r#"
        : AGENTS.md

        /compact is a command to some agents

        ## Input: docs/a\x0ab.md

        Input.

        ## Handoff: state/handoffs/h.md



        ## Named in the task but not there

        - input docs/none.md does not exist

        ## Task: S00-001

        The card:

        ```json
        {
          "id": "S00-001",
          "stage": "S00",
          "title": "Build it",
          "role": "backend",
          "reviewer_role": "qa",
          "scope": [
            "src/*"
          ],
          "inputs": [],
          "depends_on": [],
          "outcome": "It is there.",
          "steps": [],
          "acceptance": [],
          "checks": [],
          "requirements": []
        }
        ```

        Where it stands:

        ```json
        {
          "status": "in_progress"
        }
        ```
        "#);
    }

    #[test]
    fn every_part_has_its_size_and_they_add_up() {
        let prompt = made(Work::Review, &sample(), 80_000).unwrap();
        let names: Vec<&str> = prompt.sizes.iter().map(|size| size.part.as_str()).collect();
        assert_eq!(
            names,
            [
                "assignment",
                "context file AGENTS.md",
                "input docs/a\\x0ab.md",
                "handoff state/handoffs/h.md",
                "absent files",
                "task"
            ]
        );
        let sum: usize = prompt.sizes.iter().map(|size| size.characters).sum();
        assert_eq!(sum, prompt.text.chars().count());
    }

    #[test]
    fn the_budget_counts_characters_to_the_last_one_and_cuts_nothing() {
        let parts = Parts { documents: vec![document(Kind::Input, "a.md", &"ä".repeat(5_000))], absent: Vec::new() };
        let length = made(Work::Claim, &parts, usize::MAX).unwrap().text.chars().count();
        assert!(made(Work::Claim, &parts, length).is_ok());
        let fault = made(Work::Claim, &parts, length - 1).unwrap_err();
        let PromptFault::Task(ContextFault::OverBudget { total, limit, parts }) = fault else { panic!("{fault:?}") };
        assert_eq!((total, limit), (length, length - 1));
        assert_eq!(parts[0].part, "input a.md");
        assert!(parts.is_sorted_by_key(|part| std::cmp::Reverse(part.characters)));
    }

    #[test]
    fn context_alone_over_the_budget_is_no_fault_of_the_task() {
        let parts = Parts { documents: vec![document(Kind::Context, "a.md", &"x".repeat(50_000))], absent: Vec::new() };
        assert!(matches!(made(Work::Claim, &parts, 48_000), Err(PromptFault::Configuration(_))));
    }

    proptest! {
        #[test]
        fn a_prompt_holds_every_file_whole_and_begins_with_plain_words(
            texts in proptest::collection::vec("[/ -~ä\n]{0,40}", 0..5)
        ) {
            let documents = texts.iter().map(|text| document(Kind::Input, "/x", text)).collect();
            let parts = Parts { documents, absent: Vec::new() };
            let prompt = made(Work::Claim, &parts, 80_000).unwrap();
            prop_assert!(prompt.text.starts_with("You are agent "));
            for text in &texts {
                prop_assert!(prompt.text.contains(text.as_str()));
            }
            prop_assert_eq!(made(Work::Claim, &parts, 80_000).unwrap(), prompt);
        }
    }
}
