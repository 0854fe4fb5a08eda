//! An exchange: one logical conversation up to the last message of an agent. Immutable, cheap to share, of any depth.
//!
//! Holds what was said and the run ids, and nothing else: no command, environment, credential, lease or observer, so that
//! going on from it cannot bring back anything of the session it came from.

use std::fmt;
use std::iter::successors;
use std::sync::Arc;

use serde::Serialize;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Whoever asks: what it says is a session's prompt.
    Runner,
    /// The agent: its last message.
    Agent,
}

/// One thing that was said, word for word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// By whom.
    pub from: Speaker,
    /// What; it may be empty.
    pub text: String,
}

impl Message {
    /// Something that a session is asked.
    pub fn asked(text: impl Into<String>) -> Self {
        Self { from: Speaker::Runner, text: text.into() }
    }

    /// Something that an agent answered.
    pub fn answered(text: impl Into<String>) -> Self {
        Self { from: Speaker::Agent, text: text.into() }
    }
}

/// A conversation up to an agent's last message.
///
/// Whoever holds one can go on from it as often as they like, in parallel too; the branches do not see each other. Cloning
/// shares it. It is written out by nothing: neither `Debug` nor `Display` shows what was said, and only
/// [`details`](Self::details) can be serialised.
///
/// ```
/// use runner::conversation::{Exchange, Message};
///
/// let first = Exchange::begin("a.1", vec![Message::asked("Name a prime.")], "Seven.");
/// let left = first.then("b.1", vec![Message::asked("A larger one?")], "Eleven.");
/// let right = first.then("c.1", vec![Message::asked("A smaller one?")], "Two.");
/// assert_eq!(left.parent_run_id(), Some("a.1"));
/// assert_eq!((left.message_count(), right.message_count()), (4, 4));
/// assert_eq!(right.details().messages[3], Message::answered("Two."));
/// assert_eq!(format!("{left} {left:?}"), "exchange Exchange");
/// ```
#[derive(Clone)]
pub struct Exchange(Arc<Turn>);

/// What one session added.
struct Turn {
    run_id: String,
    parent: Option<Exchange>,
    asked: Box<[Message]>,
    answer: Message,
    /// Of the whole conversation.
    message_count: usize,
}

/// A copy of a conversation that has nothing to do with it any more, to be looked at or stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExchangeDetails {
    /// The session that gave the last message.
    pub run_id: String,
    /// The session it went on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// All that was said, oldest first.
    pub messages: Vec<Message>,
}

impl Exchange {
    /// The conversation of a session that went on from none: what it was asked, and its last message.
    pub fn begin(run_id: impl Into<String>, asked: Vec<Message>, answer: impl Into<String>) -> Self {
        Self::after(None, run_id.into(), asked, answer.into())
    }

    /// This conversation with what a later session was newly asked, and its last message.
    #[must_use]
    pub fn then(&self, run_id: impl Into<String>, asked: Vec<Message>, answer: impl Into<String>) -> Self {
        Self::after(Some(self.clone()), run_id.into(), asked, answer.into())
    }

    fn after(parent: Option<Self>, run_id: String, asked: Vec<Message>, answer: String) -> Self {
        let before = parent.as_ref().map_or(0, Self::message_count);
        let message_count = before + asked.len() + 1;
        Self(Arc::new(Turn { run_id, parent, asked: asked.into(), answer: Message::answered(answer), message_count }))
    }

    /// The session that gave the last message.
    pub fn run_id(&self) -> &str {
        &self.0.run_id
    }

    /// The session it went on from; none if it is the first.
    pub fn parent_run_id(&self) -> Option<&str> {
        self.0.parent.as_ref().map(Self::run_id)
    }

    /// How many messages the whole conversation has.
    pub fn message_count(&self) -> usize {
        self.0.message_count
    }

    /// The agent's last message.
    pub fn final_message(&self) -> &str {
        &self.0.answer.text
    }

    /// A copy of all of it.
    pub fn details(&self) -> ExchangeDetails {
        let mut messages = Vec::with_capacity(self.message_count());
        messages.extend(self.messages().cloned());
        ExchangeDetails {
            run_id: self.run_id().to_owned(),
            parent_run_id: self.parent_run_id().map(str::to_owned),
            messages,
        }
    }

    /// All that was said, oldest first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        let mut turns: Vec<&Turn> = self.turns().collect();
        turns.reverse();
        turns.into_iter().flat_map(|turn| turn.asked.iter().chain([&turn.answer]))
    }

    /// The run ids of its sessions, the newest first.
    pub(crate) fn run_ids(&self) -> impl Iterator<Item = &str> {
        self.turns().map(|turn| turn.run_id.as_str())
    }

    /// What each session added, the newest first.
    fn turns(&self) -> impl Iterator<Item = &Turn> {
        successors(Some(&*self.0), |turn| turn.parent.as_ref().map(|parent| &*parent.0))
    }
}

impl Drop for Turn {
    /// Lets go of the turns before it one by one: a conversation may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(Exchange(turn)) = next {
            // Of all that let go of a turn at the same time, exactly one gets it here.
            next = Arc::into_inner(turn).and_then(|mut turn| turn.parent.take());
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("exchange")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Weak;
    use std::thread;

    fn asked(text: &str) -> Vec<Message> {
        vec![Message::asked(text)]
    }

    fn texts(exchange: &Exchange) -> Vec<String> {
        exchange.details().messages.into_iter().map(|message| message.text).collect()
    }

    #[test]
    fn a_first_exchange_is_what_was_asked_and_the_last_message_word_for_word() {
        let first = Exchange::begin("a.1", vec![Message::asked(" one\r\n"), Message::asked("")], " \n");
        assert_eq!(texts(&first), [" one\r\n", "", " \n"]);
        assert_eq!((first.run_id(), first.parent_run_id()), ("a.1", None));
        assert_eq!((first.message_count(), first.final_message()), (3, " \n"));
    }

    #[test]
    fn branches_of_one_exchange_do_not_see_each_other_and_leave_it_as_it_was() {
        let first = Exchange::begin("a.1", asked("1"), "one");
        let before = first.details();
        let (left, right) = (first.then("b.1", asked("2"), "two"), first.then("c.1", asked("3"), "three"));
        let deeper = left.then("d.1", asked("4"), "four");
        assert_eq!(texts(&left), ["1", "one", "2", "two"]);
        assert_eq!(texts(&right), ["1", "one", "3", "three"]);
        assert_eq!(texts(&deeper), ["1", "one", "2", "two", "4", "four"]);
        assert_eq!(deeper.parent_run_id(), Some("b.1"));
        assert_eq!(right.parent_run_id(), Some("a.1"));
        assert_eq!(first.details(), before);
    }

    #[test]
    fn details_are_a_copy_that_can_be_serialised_and_changed_without_the_exchange() {
        let second = Exchange::begin("a.1", asked("1"), "one").then("b.1", asked("2"), "");
        let mut details = second.details();
        let wanted = json!({"run_id": "b.1", "parent_run_id": "a.1", "messages": [
            {"from": "runner", "text": "1"}, {"from": "agent", "text": "one"},
            {"from": "runner", "text": "2"}, {"from": "agent", "text": ""}]});
        assert_eq!(serde_json::to_value(&details).unwrap(), wanted);
        details.messages.clear();
        details.run_id.clear();
        assert_eq!(serde_json::to_value(second.details()).unwrap(), wanted);
        let first = serde_json::to_value(Exchange::begin("a.1", Vec::new(), "").details()).unwrap();
        assert!(first.get("parent_run_id").is_none(), "{first}");
    }

    #[test]
    fn what_was_said_is_never_shown_by_accident() {
        let exchange = Exchange::begin("secret.1", asked("secret"), "secret").then("b.1", asked("secret"), "secret");
        let nested = Some(&exchange);
        for shown in [format!("{exchange}"), format!("{exchange:?}"), format!("{exchange:#?}"), format!("{nested:?}")] {
            assert!(!shown.contains("secret") && shown.len() < 20, "{shown}");
        }
    }

    /// Runs `work` on a stack that a recursion over the turns would overflow at once.
    fn on_a_small_stack(work: impl FnOnce() + Send) {
        thread::scope(|scope| {
            thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, work).unwrap().join().unwrap();
        });
    }

    fn long(turns: usize) -> Exchange {
        let first = Exchange::begin("r.1", asked("0"), "0");
        (1..turns).fold(first, |last, n| last.then(format!("r.{}", n + 1), asked("q"), "a"))
    }

    #[test]
    fn a_hundred_thousand_turns_flatten_and_drop_without_overflowing_the_stack() {
        on_a_small_stack(|| {
            let exchange = long(100_000);
            let details = exchange.details();
            assert_eq!((details.messages.len(), exchange.message_count()), (200_000, 200_000));
            assert_eq!(details.messages[0], Message::asked("0"));
            assert_eq!(exchange.run_ids().count(), 100_000);
            drop(exchange);
        });
    }

    #[test]
    fn threads_that_let_go_of_a_long_exchange_together_leave_no_recursion_and_no_turn_behind() {
        let trunk = long(100_000);
        let gone: Vec<Weak<Turn>> = successors(Some(&trunk), |exchange| exchange.0.parent.as_ref())
            .map(|exchange| Arc::downgrade(&exchange.0))
            .collect();
        let branches: Vec<Exchange> = (0..4).map(|n| trunk.then(format!("b{n}.1"), asked("q"), "a")).collect();
        drop(trunk);
        thread::scope(|scope| {
            for branch in branches {
                let work = move || drop(branch);
                thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, work).unwrap();
            }
        });
        assert_eq!(gone.len(), 100_000);
        assert!(gone.iter().all(|turn| turn.strong_count() == 0));
    }

    #[test]
    fn a_branch_outlives_the_rest_of_the_tree() {
        let trunk = long(10);
        let branch = trunk.then("b.1", asked("q"), "last");
        let other = trunk.then("c.1", asked("q"), "a");
        drop((trunk, other));
        assert_eq!(branch.details().messages.len(), 22);
    }

    #[test]
    fn an_exchange_can_be_shared_between_threads() {
        fn shared<T: Send + Sync + Clone>() {}
        shared::<Exchange>();
    }
}
