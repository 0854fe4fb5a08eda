//! Circles of tasks and stages that wait for each other, found in the graph of everything that waits for anything.
//!
//! A task waits for the tasks it depends on, for its remediation cards, and for every task of the stages its stage depends
//! on. Never recurses: a chain may be as long as the plan.

use std::collections::HashMap;

use super::check::{card_file, stage_file};
use super::{Stage, TaskCard};
use crate::ids::{StageId, TaskId};
use crate::strict::Fault;

/// One fault for each circle, shown as the path from its first task (or stage) back to itself.
pub(super) fn faults(stages: &[Stage], tasks: &[TaskCard]) -> Vec<Fault> {
    let found: Vec<Fault> = stage_graph(stages).circles().iter().map(|circle| stage_fault(stages, circle)).collect();
    // Where stages wait in a circle, each of their tasks does too; that would only say it again.
    let with_stages = found.is_empty();
    let graph = task_graph(stages, tasks, with_stages);
    let circles = graph.circles();
    found.into_iter().chain(circles.iter().map(|circle| task_fault(stages, tasks, circle))).collect()
}

fn stage_fault(stages: &[Stage], circle: &[usize]) -> Fault {
    let path = closed(circle, |node| stages[node].id.to_string());
    let text = format!("key `depends_on` leads back to this stage: {path}; remove one of these dependencies");
    Fault::new(stage_file(&stages[circle[0]].id), text)
}

/// Nodes below the number of tasks are tasks; the rest are stages.
fn task_fault(stages: &[Stage], tasks: &[TaskCard], circle: &[usize]) -> Fault {
    let path = closed(circle, |node| match tasks.get(node) {
        Some(task) => task.id.to_string(),
        None => format!("stage {}", stages[node - tasks.len()].id),
    });
    // Stages wait for tasks only, so the lowest node of a circle is a task.
    Fault::new(card_file(&tasks[circle[0]].id), format!("waits for itself: {path}; remove one of these dependencies"))
}

fn closed(circle: &[usize], name: impl Fn(usize) -> String) -> String {
    circle.iter().chain(circle.first()).map(|node| name(*node)).collect::<Vec<_>>().join(" → ")
}

fn stage_graph(stages: &[Stage]) -> Graph {
    let places: HashMap<&StageId, usize> = stages.iter().enumerate().map(|(node, stage)| (&stage.id, node)).collect();
    let mut graph = Graph::of(stages.len());
    for (node, stage) in stages.iter().enumerate() {
        for other in &stage.depends_on {
            graph.add(node, places.get(other).copied());
        }
    }
    graph
}

fn task_graph(stages: &[Stage], tasks: &[TaskCard], with_stages: bool) -> Graph {
    let task_nodes: HashMap<&TaskId, usize> = tasks.iter().enumerate().map(|(node, task)| (&task.id, node)).collect();
    let stage_nodes: HashMap<&StageId, usize> =
        stages.iter().enumerate().map(|(place, stage)| (&stage.id, tasks.len() + place)).collect();
    let mut graph = Graph::of(tasks.len() + stages.len());
    for (node, task) in tasks.iter().enumerate() {
        for other in &task.depends_on {
            graph.add(node, task_nodes.get(other).copied());
        }
        if let Some(origin) = task.origin.as_ref().and_then(|origin| task_nodes.get(origin)) {
            graph.add(*origin, Some(node));
        }
        let stage = stage_nodes.get(&task.stage).copied().filter(|_| with_stages);
        if let Some(stage) = stage {
            graph.add(stage, Some(node));
            for other in &stages[stage - tasks.len()].depends_on {
                graph.add(node, stage_nodes.get(other).copied());
            }
        }
    }
    graph
}

/// Who waits for whom.
struct Graph {
    waits_for: Vec<Vec<usize>>,
    awaited_by: Vec<Vec<usize>>,
}

impl Graph {
    fn of(nodes: usize) -> Self {
        Self { waits_for: vec![Vec::new(); nodes], awaited_by: vec![Vec::new(); nodes] }
    }

    /// `node` waits for `other`; one that does not exist is a fault reported elsewhere.
    fn add(&mut self, node: usize, other: Option<usize>) {
        if let Some(other) = other {
            self.waits_for[node].push(other);
            self.awaited_by[other].push(node);
        }
    }

    /// Circles without a node in common, each from its lowest node on; there is one exactly if anything waits for itself.
    fn circles(&self) -> Vec<Vec<usize>> {
        let mut left = Left::of(self);
        let free: Vec<usize> = (0..self.waits_for.len()).filter(|node| self.waits_for[*node].is_empty()).collect();
        left.drop_all(self, free);
        let mut circles = Vec::new();
        for start in 0..self.waits_for.len() {
            while left.is_there[start] {
                let circle = left.walk(self, start);
                left.drop_all(self, circle.clone());
                circles.push(circle);
            }
        }
        circles.sort();
        circles
    }
}

/// The nodes not dropped yet. After each [`Left::drop_all`], every one of them waits for another one of them.
struct Left {
    is_there: Vec<bool>,
    waits: Vec<usize>,
}

impl Left {
    fn of(graph: &Graph) -> Self {
        Self { is_there: vec![true; graph.waits_for.len()], waits: graph.waits_for.iter().map(Vec::len).collect() }
    }

    /// Drops `nodes` and then everything that waits for nothing any more.
    fn drop_all(&mut self, graph: &Graph, nodes: Vec<usize>) {
        let mut dropped = nodes;
        while let Some(node) = dropped.pop() {
            if !std::mem::take(&mut self.is_there[node]) {
                continue;
            }
            for &waiting in &graph.awaited_by[node] {
                self.waits[waiting] -= 1;
                if self.waits[waiting] == 0 {
                    dropped.push(waiting);
                }
            }
        }
    }

    /// Walks from `start` along what is waited for until a node comes again, and gives back that circle.
    fn walk(&self, graph: &Graph, start: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut places = HashMap::new();
        let mut node = start;
        while !places.contains_key(&node) {
            places.insert(node, path.len());
            path.push(node);
            let next = graph.waits_for[node].iter().copied().find(|next| self.is_there[*next]);
            node = next.expect("a node that waits for nothing was dropped");
        }
        let mut circle = path.split_off(places[&node]);
        let lowest = circle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(place, _)| place);
        circle.rotate_left(lowest);
        circle
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::tests::{faults, remediation, stage, task};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tasks_in_a_circle_are_shown_as_the_path() {
        let tasks =
            vec![task("S0-3", &["S0-1"]), task("S0-1", &["S0-2"]), task("S0-2", &["S0-1"]), task("S0-4", &["S0-4"])];
        assert_eq!(
            faults(vec![stage("S0", &[])], tasks),
            [
                "planning/tasks/S0-1.json: waits for itself: S0-1 → S0-2 → S0-1; remove one of these dependencies",
                "planning/tasks/S0-4.json: waits for itself: S0-4 → S0-4; remove one of these dependencies",
            ]
        );
    }

    #[test]
    fn stages_in_a_circle_are_shown_once_and_not_again_for_each_task() {
        let stages = vec![stage("S0", &["S1"]), stage("S1", &["S0"])];
        assert_eq!(
            faults(stages, vec![task("S0-1", &[]), task("S1-1", &[])]),
            [
                "planning/stages/S0.json: key `depends_on` leads back to this stage: S0 → S1 → S0; remove one of these dependencies"
            ]
        );
    }

    #[test]
    fn a_task_that_depends_on_one_of_a_later_stage_waits_for_itself() {
        let stages = vec![stage("S0", &[]), stage("S1", &["S0"])];
        assert_eq!(
            faults(stages, vec![task("S0-1", &["S1-1"]), task("S1-1", &[])]),
            [
                "planning/tasks/S0-1.json: waits for itself: S0-1 → S1-1 → stage S0 → S0-1; remove one of these dependencies"
            ]
        );
    }

    #[test]
    fn a_task_waits_for_its_remediation() {
        let mut fix = remediation("S0-1-r1", "S0-1");
        assert_eq!(faults(vec![stage("S0", &[])], vec![task("S0-1", &[]), fix.clone()]), [""; 0]);
        fix.depends_on = vec!["S0-1".parse().unwrap()];
        assert_eq!(
            faults(vec![stage("S0", &[])], vec![task("S0-1", &[]), fix]),
            ["planning/tasks/S0-1.json: waits for itself: S0-1 → S0-1-r1 → S0-1; remove one of these dependencies"]
        );
    }

    #[test]
    fn a_chain_as_long_as_a_large_plan_is_no_trouble() {
        let ids: Vec<String> = (0..20_000).map(|number| format!("S0-{number}")).collect();
        let mut tasks: Vec<TaskCard> = ids.windows(2).map(|pair| task(&pair[0], &[&pair[1]])).collect();
        tasks.push(task(&ids[ids.len() - 1], &[]));
        assert_eq!(faults(vec![stage("S0", &[])], tasks.clone()), [""; 0]);
        tasks.last_mut().unwrap().depends_on = vec!["S0-0".parse().unwrap()];
        assert_eq!(faults(vec![stage("S0", &[])], tasks).len(), 1);
    }

    /// Whether `to` can be reached from `from` by at least one step; the slow way.
    fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
        let mut seen = std::collections::BTreeSet::new();
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            for (_, next) in edges.iter().filter(|(start, _)| *start == node) {
                if seen.insert(*next) {
                    open.push(*next);
                }
            }
        }
        seen.contains(&to)
    }

    proptest! {
        #[test]
        fn every_circle_shown_is_one_and_none_is_overlooked(edges in proptest::collection::vec((0..9_usize, 0..9_usize), 0..16)) {
            let mut graph = Graph::of(9);
            for (from, to) in &edges {
                graph.add(*from, Some(*to));
            }
            let circles = graph.circles();
            for circle in &circles {
                for (place, node) in circle.iter().enumerate() {
                    let next = circle[(place + 1) % circle.len()];
                    prop_assert!(edges.contains(&(*node, next)));
                }
            }
            let any = (0..9).any(|node| reaches(&edges, node, node));
            prop_assert_eq!(!circles.is_empty(), any);
            // Without the nodes of the circles shown, nothing waits for itself any more.
            let shown: Vec<usize> = circles.concat();
            let rest: Vec<_> = edges.iter().copied().filter(|(a, b)| !shown.contains(a) && !shown.contains(b)).collect();
            prop_assert!(!(0..9).any(|node| reaches(&rest, node, node)));
        }
    }
}
