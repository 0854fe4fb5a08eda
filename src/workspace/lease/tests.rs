//! The promises of the lease, each by name.

use std::num::NonZeroUsize;

use super::{Contamination, End, IllegalStep, Lease, NoLease, Pool, State, Step, ending};

const STATES: [State; 6] =
    [State::Vacant, State::Idle, State::Acquired, State::Reset, State::Leased, State::Quarantined];
const STEPS: [Step; 7] =
    [Step::Acquire, Step::Reset, Step::Check, Step::Release, Step::Quarantine, Step::Replace, Step::Dispose];

/// A pool of that many workspaces, all made.
fn pool(capacity: usize) -> Pool {
    let mut pool = Pool::with_capacity(NonZeroUsize::new(capacity).unwrap());
    while let Some(vacancy) = pool.vacancy() {
        pool.replace(vacancy).unwrap();
    }
    pool
}

/// A lease under which a session may work.
fn leased(pool: &mut Pool) -> Lease {
    let mut lease = pool.acquire().unwrap();
    pool.reset(&mut lease).unwrap();
    pool.check(&mut lease).unwrap();
    lease
}

#[test]
fn a_step_leads_only_where_the_table_says() {
    use State::{Acquired, Idle, Leased, Quarantined, Reset, Vacant};
    let legal = [
        (Vacant, Step::Replace, Idle),
        (Idle, Step::Acquire, Acquired),
        (Idle, Step::Dispose, Vacant),
        (Acquired, Step::Reset, Reset),
        (Acquired, Step::Release, Idle),
        (Acquired, Step::Quarantine, Quarantined),
        (Acquired, Step::Dispose, Vacant),
        (Reset, Step::Check, Leased),
        (Reset, Step::Release, Idle),
        (Reset, Step::Quarantine, Quarantined),
        (Reset, Step::Dispose, Vacant),
        (Leased, Step::Release, Idle),
        (Leased, Step::Quarantine, Quarantined),
        (Leased, Step::Dispose, Vacant),
        (Quarantined, Step::Replace, Idle),
    ];
    for from in STATES {
        for step in STEPS {
            let expected = legal.iter().find(|(state, taken, _)| (*state, *taken) == (from, step)).map(|row| row.2);
            assert_eq!(from.after(step), expected, "{from:?} {step:?}");
        }
    }
}

#[test]
fn what_is_quarantined_never_works_again_and_only_a_new_one_takes_its_place() {
    for step in STEPS {
        assert_eq!(State::Quarantined.after(step).is_some(), step == Step::Replace, "{step:?}");
    }
}

#[test]
fn capacity_is_explicit_and_one_more_is_refused_by_name() {
    for capacity in 1..=3 {
        let mut pool = pool(capacity);
        assert_eq!((pool.capacity(), pool.taken()), (capacity, 0));
        let mut leases: Vec<Lease> = (0..capacity).map(|_| pool.acquire().unwrap()).collect();
        let places: Vec<usize> = leases.iter().map(Lease::place).collect();
        assert_eq!(places, (1..=capacity).collect::<Vec<_>>(), "each has a place of its own");
        assert_eq!(pool.taken(), capacity);
        assert_eq!(pool.acquire(), Err(NoLease::Exhausted { capacity }));
        pool.release(leases.remove(0)).unwrap();
        let again = pool.acquire().unwrap();
        assert_eq!(again.place(), 1, "what was given back can be taken");
        leases.push(again);
        assert_eq!(pool.taken(), capacity);
    }
}

#[test]
fn nothing_can_be_taken_before_a_workspace_was_made() {
    let mut pool = Pool::with_capacity(NonZeroUsize::MIN);
    assert_eq!(pool.acquire(), Err(NoLease::Vacant));
    let vacancy = pool.vacancy().unwrap();
    assert_eq!(vacancy.place(), 1);
    pool.replace(vacancy).unwrap();
    assert_eq!(pool.acquire().unwrap().generation(), 1);
}

#[test]
fn nobody_works_in_a_workspace_that_was_not_reset_and_found_healthy() {
    let mut pool = pool(1);
    let mut lease = pool.acquire().unwrap();
    let refused = IllegalStep { from: State::Acquired, step: Step::Check };
    assert_eq!(pool.check(&mut lease), Err(refused), "healthy only after a reset");
    assert_eq!(lease.steps(), [Step::Acquire], "a refused step is not on record");
    pool.reset(&mut lease).unwrap();
    assert_eq!(pool.state(1), Some(State::Reset));
    pool.check(&mut lease).unwrap();
    assert_eq!(pool.state(1), Some(State::Leased));
}

#[test]
fn a_normal_completion_a_cancellation_and_a_timeout_give_the_workspace_back() {
    for end in [End::Completed, End::Cancelled, End::TimedOut] {
        assert_eq!(ending(end, &[]), Step::Release, "{end:?}");
        let mut pool = pool(1);
        let lease = leased(&mut pool);
        let steps = pool.release(lease).unwrap();
        assert_eq!(steps, [Step::Acquire, Step::Reset, Step::Check, Step::Release]);
        assert_eq!(leased(&mut pool).generation(), 1, "it is the same one again");
    }
}

#[test]
fn a_timeout_alone_is_no_contamination_and_no_signal_is_made_of_one() {
    assert_eq!(ending(End::TimedOut, &[]), Step::Release);
    assert!(Contamination::ALL.iter().all(|signal| !signal.word().contains("time")));
}

#[test]
fn each_signal_alone_quarantines_however_the_session_ended() {
    for signal in Contamination::ALL {
        for end in [End::Completed, End::Cancelled, End::TimedOut] {
            assert_eq!(ending(end, &[signal]), Step::Quarantine, "{signal} {end:?}");
        }
    }
}

#[test]
fn a_quarantined_workspace_is_replaced_by_another_and_the_capacity_stays() {
    let mut pool = pool(2);
    let (first, second) = (leased(&mut pool), leased(&mut pool));
    let steps = pool.quarantine(first).unwrap();
    assert_eq!(steps.last(), Some(&Step::Quarantine));
    assert_eq!(pool.state(1), Some(State::Quarantined));
    assert_eq!(pool.acquire(), Err(NoLease::Vacant), "the kept one is not leased again");
    let vacancy = pool.vacancy().unwrap();
    assert_eq!(vacancy.place(), 1);
    pool.replace(vacancy).unwrap();
    let next = pool.acquire().unwrap();
    assert_eq!((next.place(), next.generation()), (1, 2));
    assert_eq!((pool.capacity(), pool.taken()), (2, 2));
    pool.release(second).unwrap();
    pool.release(next).unwrap();
}

#[test]
fn a_failed_reset_quarantines_before_anybody_works_there() {
    let mut pool = pool(1);
    let lease = pool.acquire().unwrap();
    assert_eq!(ending(End::Completed, &[Contamination::FailedReset]), Step::Quarantine);
    let steps = pool.quarantine(lease).unwrap();
    assert_eq!(steps, [Step::Acquire, Step::Quarantine]);
    let vacancy = pool.vacancy().unwrap();
    pool.replace(vacancy).unwrap();
    assert_eq!(leased(&mut pool).generation(), 2);
}

#[test]
fn an_unrecoverable_fault_leaves_an_empty_place_and_nothing_to_keep() {
    assert_eq!(ending(End::Unrecoverable, &[Contamination::Tampering]), Step::Dispose);
    let mut pool = pool(1);
    let lease = leased(&mut pool);
    pool.dispose(lease).unwrap();
    assert_eq!(pool.state(1), Some(State::Vacant));
    assert_eq!(pool.acquire(), Err(NoLease::Vacant));
}

#[test]
fn every_signal_has_a_name_of_its_own() {
    let mut words: Vec<_> = Contamination::ALL.iter().map(|signal| signal.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), Contamination::ALL.len());
    assert!(Contamination::ALL.is_sorted(), "the order of the list is that of the type");
}
