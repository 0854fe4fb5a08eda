//! A task card, `planning/tasks/<TASK>.json`: its keys, and its text when the coordinator writes one.

use std::path::Path;

use serde::Serialize;

use super::check;
use crate::ids::{Role, StageId, TaskId};
use crate::strict::{Document, Fault, Fields};

/// One task of the plan as its card describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskCard {
    /// Its id, which is also its file's name.
    pub id: TaskId,
    /// The stage it belongs to.
    pub stage: StageId,
    /// What it is called.
    pub title: String,
    /// Who executes it.
    pub role: Role,
    /// Who reviews it.
    pub reviewer_role: Role,
    /// Globs of the paths a session of it may change, at least one.
    pub scope: Vec<String>,
    /// Files its agent gets to read, each with an optional note after " (".
    pub inputs: Vec<String>,
    /// The tasks that must be done before it.
    pub depends_on: Vec<TaskId>,
    /// What is true when it is done.
    pub outcome: String,
    /// How to go about it.
    pub steps: Vec<String>,
    /// What a reviewer holds it against.
    pub acceptance: Vec<String>,
    /// What to run.
    pub checks: Vec<String>,
    /// Ids of the requirements it serves.
    pub requirements: Vec<String>,
    /// Its place within its stage, smaller first; 0 unless the card says otherwise.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i64,
    /// What the coordinator runs after a submit of it, after the commands of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<Vec<String>>,
    /// The task whose blocker it removes, on a remediation card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<TaskId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference over")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl TaskCard {
    /// Parses bytes that came from `path`; the error holds all faults that this one card shows.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Vec<Fault>> {
        let document = Document::parse(path, bytes).map_err(|fault| vec![fault])?;
        let (card, faults) = document.read(read);
        match card.flatten() {
            Some(card) if faults.is_empty() => Ok(card),
            _ => Err(faults),
        }
    }

    /// The card as a file: two spaces of indentation, a final newline, `priority`, `verify` and `origin` only where they say something.
    ///
    /// # Panics
    /// Never: nothing in a card can fail to be written.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a card holds text, numbers and lists only");
        text.push('\n');
        text
    }

    /// The paths of `inputs`, without their notes.
    pub fn input_paths(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input_path(input))
    }
}

/// The path of an entry of `inputs`: what stands before " (".
pub(super) fn input_path(input: &str) -> &str {
    input.split_once(" (").map_or(input, |(path, _note)| path).trim()
}

fn read(fields: &mut Fields<'_>) -> Option<TaskCard> {
    fields.value("$schema");
    let id = fields.required_name("id");
    let stage = fields.required_name("stage");
    let title = fields.required_text("title").map(str::to_owned);
    let role = fields.required_name("role");
    let reviewer_role = fields.required_name("reviewer_role");
    let scope = scope(fields);
    let inputs = fields.checked_texts("inputs", check::input_problem).unwrap_or_default();
    let depends_on = fields.names("depends_on");
    let outcome = fields.required_text("outcome").map(str::to_owned);
    let [steps, acceptance, checks, requirements] =
        ["steps", "acceptance", "checks", "requirements"].map(|key| fields.texts(key).unwrap_or_default());
    let priority = fields.integer("priority", &(i64::MIN..=i64::MAX)).unwrap_or_default();
    let verify = fields.commands("verify").unwrap_or_default();
    let origin = origin(fields);
    fields.finish();
    Some(TaskCard {
        id: id?,
        stage: stage?,
        title: title?,
        role: role?,
        reviewer_role: reviewer_role?,
        scope,
        inputs,
        depends_on,
        outcome: outcome?,
        steps,
        acceptance,
        checks,
        requirements,
        priority,
        verify,
        origin,
    })
}

fn scope(fields: &mut Fields<'_>) -> Vec<String> {
    let scope = fields.required_texts("scope");
    if scope.as_ref().is_some_and(Vec::is_empty) {
        fields.fault("scope", check::EMPTY_SCOPE);
    }
    let scope = scope.unwrap_or_default();
    for glob in &scope {
        if let Some(problem) = check::scope_problem(glob) {
            fields.fault("scope", format!("holds {glob:?}, which {problem}"));
        }
    }
    scope
}

/// `origin`, or `remediates` as cards of the original have it.
fn origin(fields: &mut Fields<'_>) -> Option<TaskId> {
    let origin = fields.name("origin");
    let remediates = fields.name("remediates");
    if origin.is_some() && remediates.is_some() {
        fields.fault("remediates", "says the same as `origin`; remove it");
    }
    origin.or(remediates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn minimal() -> Value {
        json!({"id": "S00-001", "stage": "S00", "title": "Build it", "role": "backend", "reviewer_role": "qa",
            "scope": ["src/*"], "outcome": "It is there."})
    }

    fn with(key: &str, value: Value) -> Value {
        let mut card = minimal();
        card[key] = value;
        card
    }

    fn parsed(card: &Value) -> Result<TaskCard, Vec<String>> {
        TaskCard::parse(Path::new("planning/tasks/S00-001.json"), card.to_string().as_bytes())
            .map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_optional_keys_default_to_nothing() {
        let card = parsed(&minimal()).unwrap();
        assert!(card.inputs.is_empty() && card.depends_on.is_empty() && card.steps.is_empty());
        assert_eq!((card.priority, card.origin), (0, None));
    }

    #[test]
    fn a_card_of_the_original_is_read() {
        let card = with("remediates", json!("S00-000"));
        assert_eq!(parsed(&card).unwrap().origin, Some("S00-000".parse().unwrap()));
    }

    #[test]
    fn the_path_of_an_input_ends_before_its_note() {
        let card = parsed(&with("inputs", json!(["docs/a.md (upstream (old))", "b(1).md"]))).unwrap();
        assert_eq!(card.input_paths().collect::<Vec<_>>(), ["docs/a.md", "b(1).md"]);
    }

    #[test]
    fn each_fault_names_file_and_key() {
        for (card, wanted) in [
            (with("depnds_on", json!([])), "key `depnds_on` is unknown; did you mean `depends_on`?"),
            (
                with("verify", json!(["make"])),
                "key `verify` must be a list of commands, each a list of texts, one for each argument (no shell line)",
            ),
            (with("verify", json!([[]])), "key `verify` holds an empty list; name the program"),
            (with("title", json!("")), "key `title` is empty; write it"),
            (with("title", json!(7)), "key `title` must be a text, not `7`"),
            (with("scope", json!([])), "key `scope` is an empty list; write what the task may change"),
            (with("scope", json!("src/*")), "key `scope` must be a list of texts, not the text \"src/*\""),
            (
                with("scope", json!(["/src"])),
                "key `scope` holds \"/src\", which is absolute; write it from the project's root",
            ),
            (
                with("scope", json!(["a/../b"])),
                "key `scope` holds \"a/../b\", which leads upwards with `..`; write it from the project's root",
            ),
            (with("scope", json!(["a\0"])), "key `scope` holds \"a\\0\", which holds a NUL character; remove it"),
            (
                with("scope", json!(["state/*"])),
                "key `scope` holds \"state/*\", which lies in `state`, where only the coordinator writes; remove it",
            ),
            (
                with("scope", json!(["./planning"])),
                "key `scope` holds \"./planning\", which lies in `planning`, where only the coordinator writes; remove it",
            ),
            (
                with("inputs", json!(["../a (note)"])),
                "key `inputs` holds \"../a (note)\", which leads upwards with `..`; write it from the project's root",
            ),
            (with("depends_on", json!([1])), "key `depends_on` must be a list of texts, not a list that holds `1`"),
            (with("priority", json!(true)), "key `priority` must be an integer, not `true`"),
            (
                with("role", json!("a/b")),
                "key `role` holds a bad name: role \"a/b\" is malformed: use 1 to 80 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit",
            ),
        ] {
            assert_eq!(parsed(&card).unwrap_err(), [format!("planning/tasks/S00-001.json: {wanted}")]);
        }
    }

    #[test]
    fn a_card_without_anything_names_every_missing_key() {
        let faults = parsed(&json!({})).unwrap_err();
        for key in ["id", "stage", "title", "role", "reviewer_role", "scope", "outcome"] {
            let wanted = format!("planning/tasks/S00-001.json: key `{key}` is missing; add it");
            assert!(faults.contains(&wanted), "{faults:?}");
        }
        assert_eq!(faults.len(), 7);
    }

    #[test]
    fn broken_json_is_named_by_line_and_column() {
        let faults = TaskCard::parse(Path::new("planning/tasks/X.json"), b"{\n \"id\" 1}").unwrap_err();
        assert_eq!(
            faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["planning/tasks/X.json:2:7: expected `:`"]
        );
    }

    fn any_card() -> impl Strategy<Value = TaskCard> {
        let texts = || proptest::collection::vec("[a-z\"\\\\ä\n]{1,8}x", 0..3);
        let names = proptest::collection::vec("[A-Z][0-9]{1,3}", 0..3);
        ((texts(), texts(), names), ("[a-z ä\"]{0,9}x", any::<i64>(), proptest::option::of("[A-Z][0-9]{2}"))).prop_map(
            |((steps, scope, names), (title, priority, origin))| TaskCard {
                id: "S00-001".parse().unwrap(),
                stage: "S00".parse().unwrap(),
                outcome: title.clone(),
                title,
                role: "backend".parse().unwrap(),
                reviewer_role: "qa".parse().unwrap(),
                scope: if scope.is_empty() { vec!["src/*".to_owned()] } else { scope },
                inputs: steps.clone(),
                depends_on: names.iter().map(|name| name.parse().unwrap()).collect(),
                acceptance: steps.clone(),
                checks: Vec::new(),
                requirements: names,
                verify: steps.iter().map(|step| vec![step.clone()]).collect(),
                steps,
                priority,
                origin: origin.map(|name| name.parse().unwrap()),
            },
        )
    }

    proptest! {
        #[test]
        fn a_written_card_reads_back_the_same(card in any_card()) {
            let text = card.to_json();
            let is_pretty = text.starts_with("{\n  \"id\"") && text.ends_with("}\n");
            prop_assert!(is_pretty, "{}", text);
            prop_assert_eq!(text.contains("\"priority\""), card.priority != 0);
            prop_assert_eq!(text.contains("\"verify\": ["), !card.verify.is_empty());
            prop_assert_eq!(TaskCard::parse(Path::new("x"), text.as_bytes()), Ok(card));
        }
    }
}
