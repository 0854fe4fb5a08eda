//! What makes a plan consistent. Pure: looks at values, never at files.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use super::card::input_path;
use super::{Stage, TaskCard, cycles};
use crate::ids::{StageId, TaskId};
use crate::strict::{Fault, path_problem};

/// Folders that are never in scope, whatever a wider glob says.
const KEPT: [&str; 3] = ["state", "planning", ".git"];

/// What is wrong with a scope that allows nothing.
pub(super) const EMPTY_SCOPE: &str = "is an empty list; write what the task may change";

/// The file a card belongs into, from the root.
pub(super) fn card_file(id: &TaskId) -> String {
    format!("planning/tasks/{id}.json")
}

/// The file a stage belongs into, from the root.
pub(super) fn stage_file(id: &StageId) -> String {
    format!("planning/stages/{id}.json")
}

/// What is wrong with a glob of a scope, or `None`.
pub(super) fn scope_problem(glob: &str) -> Option<String> {
    if let Some(problem) = path_problem(glob) {
        return Some(problem);
    }
    let first = glob.split('/').find(|part| !part.is_empty() && *part != ".")?;
    let kept = KEPT.iter().find(|kept| **kept == first)?;
    Some(format!("lies in `{kept}`, where only the coordinator writes; remove it"))
}

/// What is wrong with an entry of `inputs`, or `None`.
pub(super) fn input_problem(input: &str) -> Option<String> {
    path_problem(input_path(input))
}

/// The faults one card shows by itself: those a card that was not parsed could have.
pub(super) fn card(card: &TaskCard) -> Vec<Fault> {
    let mut texts = Vec::new();
    for (key, text) in [("title", &card.title), ("outcome", &card.outcome)] {
        if text.trim().is_empty() {
            texts.push(format!("key `{key}` is empty; write it"));
        }
    }
    if card.scope.is_empty() {
        texts.push(format!("key `scope` {EMPTY_SCOPE}"));
    }
    let entries = card.scope.iter().map(|glob| ("scope", glob, scope_problem(glob)));
    let entries = entries.chain(card.inputs.iter().map(|input| ("inputs", input, input_problem(input))));
    for (key, entry, problem) in entries {
        if let Some(problem) = problem {
            texts.push(format!("key `{key}` holds {entry:?}, which {problem}"));
        }
    }
    texts.into_iter().map(|text| Fault::new(card_file(&card.id), text)).collect()
}

/// The faults that show only when stages and cards are seen together.
///
/// `unread` holds names of files that exist but have faults of their own, so that nobody is told they do not exist.
pub(super) fn whole(stages: &[Stage], tasks: &[TaskCard], unread: &BTreeSet<String>) -> Vec<Fault> {
    let known_stages: HashSet<&StageId> = stages.iter().map(|stage| &stage.id).collect();
    let known_tasks: HashSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
    let no_stage = |id: &StageId| !known_stages.contains(id) && !unread.contains(&stage_file(id));
    let no_task = |id: &TaskId| !known_tasks.contains(id) && !unread.contains(&card_file(id));

    let mut faults = Vec::new();
    if stages.is_empty() && !unread.iter().any(|file| file.starts_with("planning/stages/")) {
        faults.push(Fault::new("planning/stages", "holds no stage; write one, or run `runner init` for an example"));
    }
    if tasks.is_empty() && !unread.iter().any(|file| file.starts_with("planning/tasks/")) {
        faults.push(Fault::new("planning/tasks", "holds no task card; write one, or run `runner init` for an example"));
    }
    faults.extend(doubles(stages, tasks));
    for stage in stages {
        for id in stage.depends_on.iter().filter(|id| no_stage(id)) {
            faults.push(unknown(stage_file(&stage.id), "depends_on", "stage", id.as_str()));
        }
    }
    for task in tasks {
        let file = || card_file(&task.id);
        if no_stage(&task.stage) {
            faults.push(unknown(file(), "stage", "stage", task.stage.as_str()));
        }
        for id in task.depends_on.iter().filter(|id| no_task(id)) {
            faults.push(unknown(file(), "depends_on", "task", id.as_str()));
        }
        for id in task.origin.iter().filter(|id| no_task(id)) {
            faults.push(unknown(file(), "origin", "task", id.as_str()));
        }
    }
    faults.extend(cycles::faults(stages, tasks));
    faults
}

fn unknown(file: String, key: &str, kind: &str, id: &str) -> Fault {
    Fault::new(file, format!("key `{key}` names {kind} `{id}`, which does not exist; correct it or add the {kind}"))
}

/// A fault for each id that is there more than once.
fn doubles(stages: &[Stage], tasks: &[TaskCard]) -> Vec<Fault> {
    let stages = repeated(stages.iter().map(|stage| &stage.id)).into_iter().map(stage_file);
    let tasks = repeated(tasks.iter().map(|task| &task.id)).into_iter().map(card_file);
    let text = "key `id` is that of another one too; give each its own";
    stages.chain(tasks).map(|file| Fault::new(file, text)).collect()
}

/// The items that come more than once, each once and sorted.
fn repeated<T: Copy + Ord + Hash>(items: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = HashSet::new();
    items.filter(|item| !seen.insert(*item)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Plan;
    use super::*;

    /// A stage of that id.
    pub(in crate::plan) fn stage(id: &str, depends_on: &[&str]) -> Stage {
        Stage {
            id: id.parse().unwrap(),
            title: format!("Stage {id}"),
            goal: String::new(),
            order: 0,
            depends_on: depends_on.iter().map(|id| id.parse().unwrap()).collect(),
        }
    }

    /// A task of the stage its id begins with.
    pub(in crate::plan) fn task(id: &str, depends_on: &[&str]) -> TaskCard {
        TaskCard {
            id: id.parse().unwrap(),
            stage: id.split('-').next().unwrap().parse().unwrap(),
            title: format!("Task {id}"),
            role: "backend".parse().unwrap(),
            reviewer_role: "qa".parse().unwrap(),
            scope: vec!["src/*".to_owned()],
            inputs: Vec::new(),
            depends_on: depends_on.iter().map(|id| id.parse().unwrap()).collect(),
            outcome: "Done.".to_owned(),
            steps: Vec::new(),
            acceptance: Vec::new(),
            checks: Vec::new(),
            requirements: Vec::new(),
            priority: 0,
            verify: Vec::new(),
            origin: None,
        }
    }

    pub(in crate::plan) fn remediation(id: &str, origin: &str) -> TaskCard {
        TaskCard { origin: Some(origin.parse().unwrap()), ..task(id, &[]) }
    }

    pub(in crate::plan) fn faults(stages: Vec<Stage>, tasks: Vec<TaskCard>) -> Vec<String> {
        Plan::new(stages, tasks).map_or_else(|faults| faults.iter().map(ToString::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn what_does_not_exist_is_named_with_the_file_that_asks_for_it() {
        let mut lost = remediation("S9-1", "S0-8");
        lost.depends_on = vec!["S0-7".parse().unwrap()];
        assert_eq!(
            faults(vec![stage("S0", &["S8"])], vec![task("S0-1", &[]), lost]),
            [
                "planning/stages/S0.json: key `depends_on` names stage `S8`, which does not exist; correct it or add the stage",
                "planning/tasks/S9-1.json: key `stage` names stage `S9`, which does not exist; correct it or add the stage",
                "planning/tasks/S9-1.json: key `depends_on` names task `S0-7`, which does not exist; correct it or add the task",
                "planning/tasks/S9-1.json: key `origin` names task `S0-8`, which does not exist; correct it or add the task",
            ]
        );
    }

    #[test]
    fn an_empty_plan_is_refused() {
        assert_eq!(faults(vec![], vec![]).len(), 2);
        assert_eq!(
            faults(vec![stage("S0", &[])], vec![]),
            ["planning/tasks: holds no task card; write one, or run `runner init` for an example"]
        );
    }

    #[test]
    fn an_id_is_given_once() {
        assert_eq!(
            faults(vec![stage("S0", &[]), stage("S0", &[])], vec![task("S0-1", &[]), task("S0-1", &[])]),
            ["planning/stages/S0.json", "planning/tasks/S0-1.json"]
                .map(|file| format!("{file}: key `id` is that of another one too; give each its own"))
        );
    }

    #[test]
    fn a_card_made_by_the_coordinator_is_held_to_the_same_rules() {
        let bad = TaskCard {
            scope: vec!["state/x".to_owned(), String::new()],
            inputs: vec!["/etc/passwd (see)".to_owned()],
            title: " ".to_owned(),
            ..task("S0-1", &[])
        };
        assert_eq!(faults(vec![stage("S0", &[])], vec![bad]).len(), 4);
        assert_eq!(faults(vec![stage("S0", &[])], vec![TaskCard { scope: vec![], ..task("S0-1", &[]) }]).len(), 1);
    }

    #[test]
    fn only_the_kept_folders_themselves_are_refused_as_scope() {
        for good in ["state_machine/*", "*", "planning.md", ".gitignore", ".github/*", "src/state/*", "[s]tate/x"] {
            assert_eq!(scope_problem(good), None, "{good}");
        }
        for bad in ["state", "state/", "planning/tasks/*", ".git/hooks/*", "./state/x"] {
            assert!(scope_problem(bad).is_some(), "{bad}");
        }
    }
}
