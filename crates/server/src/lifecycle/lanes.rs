//! [`TaskLanes`]: which of the tasks that are due may run. Pure: nothing is run here.
//!
//! Tasks of different namespaces run at the same time. A task may take long for reasons that its namespace has caused, such
//! as a webhook that does not answer or a million owner references, and others must not wait for it. So tasks wait in
//! the lane of their namespace, a lane has a few places, and lanes take turns. A task never runs twice at once.

use std::collections::{HashMap, VecDeque};

use crate::lifecycle::task::{Lane, LifecycleTask};

/// Tasks that run at the same time. Each holds an object or two; those that compute yield to other work.
const RUNNING_TASKS: usize = 128;

/// Due tasks by lane, and those that run.
#[derive(Debug, Default)]
pub(super) struct TaskLanes {
    lanes: HashMap<Lane, LaneTasks>,
    /// The lanes with a waiting task and a free place, each once, in the order of their turns.
    turns: VecDeque<Lane>,
    /// Every task in a lane.
    states: HashMap<LifecycleTask, TaskState>,
    running: usize,
}

/// The tasks of one lane. Removed with the last of them.
#[derive(Debug, Default)]
struct LaneTasks {
    waiting: VecDeque<LifecycleTask>,
    running: usize,
    has_turn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    Waiting,
    Running,
    /// It runs, and became due again: it may have read what has changed since.
    RunningAndDue,
}

impl TaskLanes {
    /// Adds a task that is due. One that waits already is not added twice; one that runs will run again.
    pub(super) fn add(&mut self, task: LifecycleTask) {
        match self.states.get_mut(&task) {
            Some(TaskState::Waiting) => {}
            Some(state) => *state = TaskState::RunningAndDue,
            None => self.enqueue(task),
        }
    }

    /// Returns true if a task waits or runs.
    pub(super) fn contains(&self, task: &LifecycleTask) -> bool {
        self.states.contains_key(task)
    }

    /// Takes a task that may run now, of the next lane.
    pub(super) fn take(&mut self) -> Option<LifecycleTask> {
        if self.running >= RUNNING_TASKS {
            return None;
        }
        let lane = self.turns.pop_front()?;
        let tasks = self.lanes.get_mut(&lane)?;
        tasks.has_turn = false;
        let task = tasks.waiting.pop_front()?;
        tasks.running += 1;
        self.running += 1;
        self.states.insert(task.clone(), TaskState::Running);
        self.give_turn(lane);
        Some(task)
    }

    /// Frees the place of a task that was taken, for the next one.
    pub(super) fn ended(&mut self, task: &LifecycleTask) {
        let Some(state) = self.states.remove(task) else { return };
        let lane = task.lane();
        if let Some(tasks) = self.lanes.get_mut(&lane) {
            tasks.running -= 1;
            self.running -= 1;
        }
        if state == TaskState::RunningAndDue {
            self.enqueue(task.clone());
        }
        self.give_turn(lane);
    }

    /// Puts a task at the end of its lane.
    fn enqueue(&mut self, task: LifecycleTask) {
        let lane = task.lane();
        self.states.insert(task.clone(), TaskState::Waiting);
        self.lanes.entry(lane.clone()).or_default().waiting.push_back(task);
        self.give_turn(lane);
    }

    /// Queues a lane for its turn if it has a task that may run, and removes it if it is empty.
    fn give_turn(&mut self, lane: Lane) {
        let Some(tasks) = self.lanes.get_mut(&lane) else { return };
        if tasks.waiting.is_empty() {
            if tasks.running == 0 {
                self.lanes.remove(&lane);
            }
        } else if tasks.running < lane.places() && !tasks.has_turn {
            tasks.has_turn = true;
            self.turns.push_back(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn dependent(namespace: &str, number: usize) -> LifecycleTask {
        LifecycleTask::Dependent(Arc::from(format!("/registry/pods/{namespace}/{number}")))
    }

    fn drain(lanes: &mut TaskLanes) -> Vec<LifecycleTask> {
        std::iter::from_fn(|| lanes.take()).collect()
    }

    #[test]
    fn a_namespace_whose_tasks_do_not_end_holds_up_no_other() {
        let mut lanes = TaskLanes::default();
        (0..1000).for_each(|number| lanes.add(dependent("stuck", number)));
        let places = drain(&mut lanes).len();
        assert!((1..RUNNING_TASKS / 4).contains(&places), "{places}");
        lanes.add(dependent("other", 0));
        assert_eq!(lanes.take(), Some(dependent("other", 0)));
        assert_eq!(lanes.take(), None);
        lanes.ended(&dependent("stuck", 0));
        assert_eq!(lanes.take(), Some(dependent("stuck", places)), "in the order in which they became due");
    }

    #[test]
    fn a_task_runs_once_at_a_time_and_again_if_it_became_due_meanwhile() {
        let mut lanes = TaskLanes::default();
        lanes.add(dependent("a", 0));
        lanes.add(dependent("a", 0));
        assert_eq!(drain(&mut lanes), [dependent("a", 0)]);
        lanes.add(dependent("a", 0));
        assert_eq!(lanes.take(), None, "it runs");
        lanes.ended(&dependent("a", 0));
        assert_eq!(drain(&mut lanes), [dependent("a", 0)]);
        lanes.ended(&dependent("a", 0));
        assert!(lanes.take().is_none() && !lanes.contains(&dependent("a", 0)));
        assert!(lanes.lanes.is_empty() && lanes.states.is_empty() && lanes.turns.is_empty());
    }

    #[test]
    fn lanes_take_turns_and_run_a_bounded_number_of_tasks() {
        let mut lanes = TaskLanes::default();
        for namespace in 0..RUNNING_TASKS {
            (0..3).for_each(|number| lanes.add(dependent(&namespace.to_string(), number)));
        }
        let taken = drain(&mut lanes);
        let first = (0..RUNNING_TASKS).map(|namespace| dependent(&namespace.to_string(), 0));
        assert_eq!(taken, first.collect::<Vec<_>>());
    }

    #[test]
    fn tasks_about_one_address_keep_their_order() {
        let mut lanes = TaskLanes::default();
        let task = |path: &str| LifecycleTask::Address("10.0.0.9".into(), path.into());
        lanes.add(task("a/old"));
        lanes.add(task("b/new"));
        assert_eq!(drain(&mut lanes), [task("a/old")]);
        lanes.ended(&task("a/old"));
        assert_eq!(drain(&mut lanes), [task("b/new")]);
    }
}
