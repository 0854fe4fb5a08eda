//! Coordinated turns: a bounded number of further requests on one branch of a conversation, chosen one after another by a
//! callback.
//!
//! Looks into no request and no result, holds nothing while the callback decides (no lease, no claim, no lock), and catches
//! nothing: a panic of the callback goes on to the caller.

use std::fmt;

use super::exchange::Exchange;
use crate::observe::{Observer, compose};

/// One request to a session.
#[derive(Clone)]
pub struct Request<'o, Q> {
    /// The conversation to go on from.
    pub continue_from: Option<Exchange>,
    /// Whether an exchange is wanted of a request that goes on from none; one that does always gives one.
    pub capture: bool,
    /// Who is told about this request's session, before anybody else.
    pub observer: Option<&'o Observer<'o>>,
    /// What is asked, in whatever form the executor takes.
    pub body: Q,
}

impl<Q> Request<'_, Q> {
    /// A request that goes on from no conversation, is not captured and not observed.
    pub fn new(body: Q) -> Self {
        Self { continue_from: None, capture: false, observer: None, body }
    }

    /// Whether its session's conversation is to be kept.
    pub fn is_captured(&self) -> bool {
        self.capture || self.continue_from.is_some()
    }

    /// The exchange of a session of this request that completed; none if it is not wanted.
    ///
    /// `asked` is what was new in its prompt, `answer` its last message, both word for word. A session that was judged badly has
    /// completed all the same; one that failed to operate has not, and gives none.
    pub fn exchange(&self, run_id: &str, asked: Vec<super::Message>, answer: &str) -> Option<Exchange> {
        match &self.continue_from {
            Some(source) => Some(source.then(run_id, asked, answer)),
            None => self.capture.then(|| Exchange::begin(run_id, asked, answer)),
        }
    }
}

/// A session that completed, and the conversation up to its last message.
#[derive(Clone)]
pub struct Completed<R> {
    /// The conversation.
    pub exchange: Exchange,
    /// What else came of it.
    pub result: R,
}

/// What the callback decides on; its own, whatever it does with it.
pub struct Turn<R> {
    /// The conversation so far.
    pub exchange: Exchange,
    /// The result of the session that has just completed; none at the first call.
    pub result: Option<R>,
    /// How many more requests may start.
    pub remaining_turns: u32,
}

/// Chooses the next request of a branch; none stops it.
pub type Next<'a, 'o, Q, R, E> = &'a mut dyn FnMut(Turn<R>) -> Result<Option<Request<'o, Q>>, E>;

/// Carries out one request to its very end. What it took for that (a lease, a lock) is free again when it returns.
pub type Execute<'a, Q, R, E> = &'a mut dyn FnMut(Request<'_, Q>) -> Result<Completed<R>, E>;

/// One branch of a conversation to be carried on.
pub struct Coordination<'a, 'o, Q, R, E> {
    /// The conversation to begin with.
    pub start: Exchange,
    /// How many requests may start; with 0 the callback is asked once.
    pub additional_turns: u32,
    /// Chooses each request.
    pub next: Next<'a, 'o, Q, R, E>,
    /// Who is told about the sessions of this branch, after the request's own observer; neither the session that `start` came
    /// from nor what the callback starts itself is told.
    pub observer: Option<&'a Observer<'a>>,
    /// Whether the caller has been told to stop; asked before and after each call of the callback and before each request.
    pub is_cancelled: &'a dyn Fn() -> bool,
}

/// How a branch ended in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The callback asked for no more. That says nothing about what came of it.
    Stopped,
    /// The callback asked for one more than may start; that request was not looked at.
    Exhausted,
}

/// Why a branch ended otherwise.
#[derive(thiserror::Error, Clone)]
pub enum Halted<R, E> {
    /// The first error of callback or executor, as it was.
    #[error("{0}")]
    Failed(#[source] E),
    /// The caller was told to stop.
    #[error("the conversation was cancelled")]
    Cancelled {
        /// The session that completed and that the callback was not told of any more.
        undelivered: Option<Box<Completed<R>>>,
    },
}

/// Carries on one branch of a conversation until the callback stops it, its turns are used up, or something goes wrong.
///
/// The callback is asked first with `start` and all turns, then after each session with what came of it. What it gets is its
/// own: the branch goes on from the exchange that the executor gave, whatever `continue_from` its request holds. Cancellation
/// outranks what the callback decided, but interrupts neither callback nor executor.
///
/// ```
/// use std::convert::Infallible;
/// use runner::conversation::{Completed, Coordination, Exchange, Message, Outcome, Request, Turn, coordinate};
///
/// let start = Exchange::begin("a.1", vec![Message::asked("Begin.")], "draft");
/// let mut words = Vec::new();
/// let mut next = |turn: Turn<usize>| {
///     words.push(turn.exchange.final_message().to_owned());
///     let is_good = turn.result.is_some_and(|length| length > 6);
///     Ok::<_, Infallible>((!is_good).then(|| Request::new("Say more.")))
/// };
/// let mut execute = |request: Request<'_, &str>| {
///     let source = request.continue_from.as_ref().expect("coordination sets it");
///     let answer = format!("{}!", source.final_message());
///     let exchange = request.exchange("b.1", vec![Message::asked(request.body)], &answer).expect("continuing captures");
///     Ok(Completed { result: answer.len(), exchange })
/// };
/// let branch = Coordination { start, additional_turns: 5, next: &mut next, observer: None, is_cancelled: &|| false };
/// assert!(matches!(coordinate(branch, &mut execute), Ok(Outcome::Stopped)));
/// assert_eq!(words, ["draft", "draft!", "draft!!"]);
/// ```
pub fn coordinate<Q, R, E>(
    coordination: Coordination<'_, '_, Q, R, E>,
    execute: Execute<'_, Q, R, E>,
) -> Result<Outcome, Halted<R, E>> {
    let Coordination { start, additional_turns, next, observer, is_cancelled } = coordination;
    let (mut current, mut pending, mut remaining_turns) = (start, None, additional_turns);
    loop {
        if is_cancelled() {
            let undelivered = pending.map(|result| Box::new(Completed { exchange: current, result }));
            return Err(Halted::Cancelled { undelivered });
        }
        let chosen = next(Turn { exchange: current.clone(), result: pending.take(), remaining_turns });
        if is_cancelled() {
            return Err(Halted::Cancelled { undelivered: None });
        }
        let Some(request) = chosen.map_err(Halted::Failed)? else { return Ok(Outcome::Stopped) };
        let Some(left) = remaining_turns.checked_sub(1) else { return Ok(Outcome::Exhausted) };
        if is_cancelled() {
            return Err(Halted::Cancelled { undelivered: None });
        }
        remaining_turns = left;
        let both = compose(&[request.observer, observer]);
        let continue_from = Some(current.clone());
        let request = Request { continue_from, capture: true, observer: both.as_deref(), body: request.body };
        let Completed { exchange, result } = execute(request).map_err(Halted::Failed)?;
        current = exchange;
        pending = Some(result);
    }
}

/// Shows what kind of request it is, not what it holds.
impl<Q> fmt::Debug for Request<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("continue_from", &self.continue_from)
            .field("capture", &self.capture)
            .field("is_observed", &self.observer.is_some())
            .finish_non_exhaustive()
    }
}

/// Shows that a session completed, not what it said.
impl<R> fmt::Debug for Completed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// Shows where the branch stands, not what was said on it.
impl<R> fmt::Debug for Turn<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("exchange", &self.exchange)
            .field("is_first", &self.result.is_none())
            .field("remaining_turns", &self.remaining_turns)
            .finish_non_exhaustive()
    }
}

/// Shows the error, and whether a session was left undelivered, not what it said.
impl<R, E: fmt::Debug> fmt::Debug for Halted<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
            Self::Cancelled { undelivered } => {
                f.debug_struct("Cancelled").field("undelivered", &undelivered.is_some()).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests;
