//! Loading a plan from `planning/` and checking it whole.
//!
//! Owns the tie between files and ids: a card is named for its id, a role has its text. Reads each file once and never
//! writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Plan, PlanError, Stage, TaskCard, check};
use crate::fs;
use crate::ids::Role;
use crate::project::Project;
use crate::strict::Fault;

impl Plan {
    /// Loads the project's plan; the error holds every fault of every file.
    pub fn load(project: &Project) -> Result<Self, PlanError> {
        let mut faults = Faults::default();
        let stages = read_all(project, "planning/stages", |source| {
            faults.sift(source, source.named(Stage::parse, |stage| stage.id.as_str()))
        })?;
        let tasks = read_all(project, "planning/tasks", |source| {
            faults.sift(source, source.named(TaskCard::parse, |card| card.id.as_str()))
        })?;
        let Faults { mut all, unread } = faults;
        all.extend(roles(project.root(), &tasks));
        all.extend(check::whole(&stages, &tasks, &unread));
        if all.is_empty() { Ok(Self::arranged(stages, tasks)) } else { Err(PlanError::Faults(all)) }
    }
}

/// What is wrong so far, and the files that could not be taken into the plan.
#[derive(Default)]
struct Faults {
    all: Vec<Fault>,
    unread: BTreeSet<String>,
}

impl Faults {
    /// Lets what was read through and keeps the faults of what was not.
    fn sift<T>(&mut self, source: &Source, read: Result<T, Vec<Fault>>) -> Option<T> {
        read.map_err(|faults| {
            self.all.extend(faults);
            self.unread.insert(source.file());
        })
        .ok()
    }
}

/// One file of the plan: where it is, and its path from the root, which is what messages show.
struct Source {
    path: PathBuf,
    shown: PathBuf,
}

impl Source {
    fn file(&self) -> String {
        self.shown.display().to_string()
    }

    /// Reads and parses the file; its name must be the id it holds.
    fn named<T>(
        &self,
        parse: impl Fn(&Path, &[u8]) -> Result<T, Vec<Fault>>,
        id: impl Fn(&T) -> &str,
    ) -> Result<T, Vec<Fault>> {
        let bytes = fs::read(&self.path).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            vec![Fault::new(self.file(), format!("cannot be read ({cause}); make it a readable file or remove it"))]
        })?;
        let made = parse(&self.shown, &bytes)?;
        let name = self.shown.file_stem().unwrap_or_default();
        if name == id(&made) {
            return Ok(made);
        }
        let id = id(&made);
        let text =
            format!("key `id` is `{id}`, but the file is named for `{}`; rename the file or the id", name.display());
        Err(vec![Fault::new(self.file(), text)])
    }
}

/// What `read` makes of the `.json` files of a folder, in their order; hidden ones (an editor's or a crash's leftovers)
/// are no part of the plan.
fn read_all<T>(
    project: &Project,
    folder: &str,
    mut read: impl FnMut(&Source) -> Option<T>,
) -> Result<Vec<T>, PlanError> {
    let paths = fs::list(&project.root().join(folder))?.unwrap_or_default();
    let sources = paths.into_iter().filter_map(|path| {
        let name = path.file_name()?;
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let shown = Path::new(folder).join(name);
        (is_json && !is_hidden).then_some(Source { path, shown })
    });
    Ok(sources.filter_map(|source| read(&source)).collect())
}

/// A fault for each card whose role, or its reviewer's, has no text.
fn roles(root: &Path, tasks: &[TaskCard]) -> Vec<Fault> {
    let mut known: BTreeMap<&Role, bool> = BTreeMap::new();
    let mut faults = Vec::new();
    for task in tasks {
        for (key, role) in [("role", &task.role), ("reviewer_role", &task.reviewer_role)] {
            let file = format!("roles/{role}.md");
            if !*known.entry(role).or_insert_with(|| root.join(&file).is_file()) {
                let text = format!("key `{key}` is `{role}`, but there is no {file}; write it or correct the role");
                faults.push(Fault::new(check::card_file(&task.id), text));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    struct Sample(tempfile::TempDir);

    impl Sample {
        fn new() -> Self {
            let sample = Self(tempfile::tempdir().unwrap());
            for role in ["frontend", "qa"] {
                sample.put(&format!("roles/{role}.md"), "Do it.\n");
            }
            sample.stage("S00", 0);
            sample
        }

        fn put(&self, path: &str, text: &str) {
            fs::replace(&self.0.path().join(path), text.as_bytes()).unwrap();
        }

        fn stage(&self, id: &str, order: i64) {
            let stage = json!({"id": id, "order": order, "title": "Stage", "goal": "Sample", "depends_on": []});
            self.put(&format!("planning/stages/{id}.json"), &stage.to_string());
        }

        fn card(&self, id: &str, more: &Value) {
            let mut card = json!({"id": id, "stage": &id[..3], "title": "Build a feature", "role": "frontend",
                "reviewer_role": "qa", "scope": ["src/*"], "inputs": ["docs/a.md (note)"], "depends_on": [],
                "outcome": "A file.", "steps": ["Go."], "acceptance": ["Exists."], "checks": ["ls"],
                "requirements": ["REQ-1"]});
            card.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            self.put(&format!("planning/tasks/{id}.json"), &card.to_string());
        }

        fn load(&self) -> Result<Plan, String> {
            Plan::load(&Project::open(self.0.path()).unwrap()).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn a_plan_is_sorted_by_stage_priority_and_id() {
        let sample = Sample::new();
        sample.stage("S01", -1);
        for (id, priority) in [("S00-001", 0), ("S00-002", -5), ("S00-003", -5), ("S01-009", 7)] {
            sample.card(id, &json!({"priority": priority}));
        }
        sample.card("S00-001-r1", &json!({"remediates": "S00-001"}));
        sample.card("S00-001-r1-r1", &json!({"origin": "S00-001-r1"}));
        sample.put("planning/tasks/.S00-001.json", "an editor's leftover");
        sample.put("planning/tasks/notes.txt", "for people");
        let plan = sample.load().unwrap();
        let ids: Vec<&str> = plan.tasks().iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["S01-009", "S00-002", "S00-003", "S00-001", "S00-001-r1", "S00-001-r1-r1"]);
        assert_eq!(plan.stages().iter().map(|stage| stage.id.as_str()).collect::<Vec<_>>(), ["S01", "S00"]);
        let depths: Vec<u32> = plan.tasks().iter().map(|task| plan.depth(&task.id)).collect();
        assert_eq!(depths, [0, 0, 0, 0, 1, 2]);
        let id = "S00-001".parse().unwrap();
        assert_eq!(plan.remediations_of(&id).map(|card| card.id.as_str()).collect::<Vec<_>>(), ["S00-001-r1"]);
        assert_eq!(plan.task(&id).unwrap().title, "Build a feature");
        assert!(plan.stage(&"S02".parse().unwrap()).is_none());
    }

    #[test]
    fn every_fault_of_every_file_is_reported() {
        let sample = Sample::new();
        sample.card("S00-001", &json!({"depnds_on": [], "scope": ["state/*"]}));
        sample.card("S00-002", &json!({"id": "S00-003"}));
        sample.card("S00-004", &json!({"role": "ghost", "depends_on": ["S00-001", "S00-009"]}));
        sample.card("S00-005", &json!({"stage": "S07"}));
        sample.put("planning/tasks/S00-006.json", "{\n");
        sample.put("planning/tasks/S00-007.json/inside", "a folder");
        sample.put("planning/stages/S07.json", r#"{"id": "S07", "title": "", "order": 1.5}"#);
        assert_eq!(
            sample.load().unwrap_err().lines().collect::<Vec<_>>(),
            [
                "planning/stages/S07.json: key `order` must be an integer, not `1.5`",
                "planning/stages/S07.json: key `title` is empty; write it",
                "planning/tasks/S00-001.json: key `scope` holds \"state/*\", which lies in `state`, where only the coordinator writes; remove it",
                "planning/tasks/S00-001.json: key `depnds_on` is unknown; did you mean `depends_on`?",
                "planning/tasks/S00-002.json: key `id` is `S00-003`, but the file is named for `S00-002`; rename the file or the id",
                "planning/tasks/S00-006.json:2:0: EOF while parsing an object",
                "planning/tasks/S00-007.json: cannot be read (Is a directory (os error 21)); make it a readable file or remove it",
                "planning/tasks/S00-004.json: key `role` is `ghost`, but there is no roles/ghost.md; write it or correct the role",
                "planning/tasks/S00-004.json: key `depends_on` names task `S00-009`, which does not exist; correct it or add the task",
            ]
        );
    }

    #[test]
    fn a_plan_without_files_is_refused_before_anything_runs() {
        let sample = Sample::new();
        assert_eq!(
            sample.load().unwrap_err(),
            "planning/tasks: holds no task card; write one, or run `runner init` for an example"
        );
    }
}
