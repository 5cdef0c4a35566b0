//! Fault rates of the network, and how the outcome of a request or watch event is drawn.
//!
//! Never change the order of draws: a seed must give the same faults.

use std::ops::Range;
use std::time::Duration;

use crate::Random;

/// How often each fault happens, in thousandths, per request or per watch event.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRates {
    /// How long a request takes to the server, and the answer to the client.
    pub latency: Range<Duration>,
    /// Requests that take `slowness` instead of `latency`.
    pub slow: u32,
    pub slowness: Range<Duration>,
    /// Updates and patches that are refused with 409, as if another client had written first.
    pub conflict: u32,
    /// 429.
    pub too_many: u32,
    /// 500, 503 or 504; the request is not carried out.
    pub server_error: u32,
    /// The connection is refused.
    pub refused: u32,
    /// The write is committed, and the connection breaks before the answer arrives.
    pub lost_answer: u32,
    /// The request gets no answer and no error. It is carried out in half of the cases.
    pub hang: u32,
    /// Watches that are refused with 410.
    pub expired: u32,
    /// Events that are delayed by `lateness`, together with all later events of the watch.
    pub late: u32,
    pub lateness: Range<Duration>,
    /// Events that are delivered twice.
    pub duplicate: u32,
    /// Events before which the watch ends: regularly, with an error, in the middle of a line, or with 410.
    pub cut: u32,
    /// Events before which the watch stalls: no event arrives any more, and the connection stays open.
    pub stall: u32,
    /// Answers whose body is truncated. The write is committed.
    pub truncated: u32,
    /// 401, as if a token had expired.
    pub unauthorized: u32,
    /// 403, as if an RBAC rule had been removed.
    pub forbidden: u32,
    /// Writes that are refused with 413.
    pub too_large: u32,
    /// Create requests that are refused with 403 because of a quota.
    pub quota: u32,
    /// Writes that a third-party admission webhook refuses, or that fail because it does not answer.
    pub webhook: u32,
    /// Lists that are answered in pages of one or two objects, with a continue token.
    pub short_page: u32,
    /// Continue tokens that are refused with 410.
    pub expired_token: u32,
    /// Lists that show the state of some seconds ago.
    pub stale_list: u32,
    /// Discovery answers in which one API group is stale and has no resources.
    pub partial_discovery: u32,
}

impl FaultRates {
    /// No faults and no latency.
    pub fn none() -> Self {
        let none = Duration::ZERO..Duration::ZERO;
        Self {
            latency: none.clone(),
            slow: 0,
            slowness: none.clone(),
            conflict: 0,
            too_many: 0,
            server_error: 0,
            refused: 0,
            lost_answer: 0,
            hang: 0,
            expired: 0,
            late: 0,
            lateness: none,
            duplicate: 0,
            cut: 0,
            stall: 0,
            truncated: 0,
            unauthorized: 0,
            forbidden: 0,
            too_large: 0,
            quota: 0,
            webhook: 0,
            short_page: 0,
            expired_token: 0,
            stale_list: 0,
            partial_discovery: 0,
        }
    }

    /// About one request in six fails; one watch event in eight is late, duplicated or the last of its watch.
    pub fn usual() -> Self {
        Self {
            latency: Duration::from_millis(1)..Duration::from_millis(40),
            slow: 50,
            slowness: Duration::from_millis(100)..Duration::from_secs(3),
            conflict: 40,
            too_many: 20,
            server_error: 40,
            refused: 30,
            lost_answer: 40,
            hang: 3,
            expired: 30,
            late: 60,
            lateness: Duration::from_millis(50)..Duration::from_secs(4),
            duplicate: 40,
            cut: 40,
            truncated: 20,
            short_page: 200,
            expired_token: 100,
            ..Self::none()
        }
    }

    /// The usual faults and refusals that normally last: credentials, RBAC, quotas, webhooks, sizes.
    pub fn with_refusals() -> Self {
        Self { unauthorized: 20, forbidden: 30, too_large: 10, quota: 30, webhook: 30, ..Self::usual() }
    }

    /// The usual faults, stale lists and incomplete discovery.
    pub fn with_stale_reads() -> Self {
        Self { stale_list: 200, partial_discovery: 400, ..Self::usual() }
    }

    /// The usual faults and stalled watches, which clients notice after minutes.
    pub fn with_stalled_watches() -> Self {
        Self { stall: 20, ..Self::usual() }
    }
}

/// An error answer that the network gives instead of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Conflict,
    TooMany,
    Internal,
    Unavailable,
    Timeout,
    Connection,
    Unauthorized,
    Forbidden,
    TooLarge,
    Quota,
    /// An admission webhook denies the request.
    WebhookDenies,
    /// An admission webhook does not answer, and its failure policy is `Fail`.
    WebhookFails,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    Answered,
    Refused(Refusal),
    AnswerLost,
    /// No answer arrives.
    Hangs {
        carried_out: bool,
    },
    /// A watch whose resourceVersion is too old; 410 is the answer itself or the first event.
    Expired {
        as_event: bool,
    },
    /// The request is carried out, and the body of the answer is truncated.
    Truncated,
    /// A continue token is refused with 410.
    ExpiredToken,
    /// A list shows the state of some seconds ago.
    StaleList,
    /// A discovery answer in which one API group is stale and has no resources.
    PartialDiscovery,
}

/// The latency and the outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    pub to_server: Duration,
    pub to_client: Duration,
    pub outcome: RequestOutcome,
    /// The page size of a list answer, if it differs from the requested one.
    pub page_size: Option<u64>,
}

impl Delivery {
    pub const WITHOUT_FAULTS: Self = Self {
        to_server: Duration::ZERO,
        to_client: Duration::ZERO,
        outcome: RequestOutcome::Answered,
        page_size: None,
    };
}

/// The kinds of requests that have different faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A read of one object, or of anything else that is neither a list nor discovery.
    Read,
    List {
        /// Whether the request has a continue token.
        continued: bool,
    },
    Discovery,
    Watch,
    /// Never gets a conflict: that would mean that the object exists.
    Create,
    Change,
}

pub(super) fn draw_delivery(rates: &FaultRates, kind: RequestKind, random: &mut Random) -> Delivery {
    let range = if random.chance(rates.slow) { &rates.slowness } else { &rates.latency };
    let (to_server, to_client) = (random.duration(range), random.duration(range));
    let is_short = matches!(kind, RequestKind::List { .. }) && random.chance(rates.short_page);
    let page_size = is_short.then(|| 1 + random.below(LONGEST_SHORT_PAGE));
    Delivery { to_server, to_client, outcome: draw_outcome(rates, kind, random), page_size }
}

/// Most objects in a short page.
const LONGEST_SHORT_PAGE: u64 = 2;

fn draw_outcome(rates: &FaultRates, kind: RequestKind, random: &mut Random) -> RequestOutcome {
    if random.chance(rates.too_many) {
        return RequestOutcome::Refused(Refusal::TooMany);
    }
    if random.chance(rates.server_error) {
        let errors = [Refusal::Internal, Refusal::Unavailable, Refusal::Timeout];
        return RequestOutcome::Refused(errors[random.index(errors.len())]);
    }
    if random.chance(rates.refused) {
        return RequestOutcome::Refused(Refusal::Connection);
    }
    if random.chance(rates.hang) {
        return RequestOutcome::Hangs { carried_out: random.chance(500) };
    }
    if let Some(refusal) = draw_refusal(rates, kind, random) {
        return RequestOutcome::Refused(refusal);
    }
    if kind != RequestKind::Watch && random.chance(rates.truncated) {
        return RequestOutcome::Truncated;
    }
    match kind {
        RequestKind::List { continued: true } if random.chance(rates.expired_token) => RequestOutcome::ExpiredToken,
        RequestKind::List { continued: false } if random.chance(rates.stale_list) => RequestOutcome::StaleList,
        RequestKind::Discovery if random.chance(rates.partial_discovery) => RequestOutcome::PartialDiscovery,
        RequestKind::Watch if random.chance(rates.expired) => RequestOutcome::Expired { as_event: random.chance(500) },
        RequestKind::Change if random.chance(rates.conflict) => RequestOutcome::Refused(Refusal::Conflict),
        RequestKind::Change | RequestKind::Create if random.chance(rates.lost_answer) => RequestOutcome::AnswerLost,
        _ => RequestOutcome::Answered,
    }
}

/// Draws a refusal that would last if it were not a fault.
fn draw_refusal(rates: &FaultRates, kind: RequestKind, random: &mut Random) -> Option<Refusal> {
    let is_write = matches!(kind, RequestKind::Create | RequestKind::Change);
    if random.chance(rates.unauthorized) {
        Some(Refusal::Unauthorized)
    } else if random.chance(rates.forbidden) {
        Some(Refusal::Forbidden)
    } else if is_write && random.chance(rates.too_large) {
        Some(Refusal::TooLarge)
    } else if kind == RequestKind::Create && random.chance(rates.quota) {
        Some(Refusal::Quota)
    } else if is_write && random.chance(rates.webhook) {
        let refusals = [Refusal::WebhookDenies, Refusal::WebhookFails];
        Some(refusals[random.index(refusals.len())])
    } else {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOutcome {
    Passes,
    Late(Duration),
    Duplicated,
    Cut(Cut),
    Stalled,
}

/// How a watch ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As at its timeout.
    Clean,
    /// The connection breaks.
    Broken,
    /// The connection breaks in the middle of an event.
    MidLine,
    /// The resourceVersion is too old.
    Expired,
}

pub(super) fn draw_event_outcome(rates: &FaultRates, random: &mut Random) -> EventOutcome {
    if random.chance(rates.late) {
        return EventOutcome::Late(random.duration(&rates.lateness));
    }
    if random.chance(rates.duplicate) {
        return EventOutcome::Duplicated;
    }
    if random.chance(rates.cut) {
        let cuts = [Cut::Clean, Cut::Broken, Cut::MidLine, Cut::Expired];
        return EventOutcome::Cut(cuts[random.index(cuts.len())]);
    }
    if random.chance(rates.stall) {
        return EventOutcome::Stalled;
    }
    EventOutcome::Passes
}

#[cfg(test)]
mod tests {
    use super::*;

    const THROWS: usize = 20_000;

    #[test]
    fn without_faults_everything_arrives_at_once() {
        let mut random = Random::new(1);
        let list = |continued| RequestKind::List { continued };
        for kind in [
            RequestKind::Read,
            list(false),
            list(true),
            RequestKind::Discovery,
            RequestKind::Watch,
            RequestKind::Create,
            RequestKind::Change,
        ] {
            assert_eq!(draw_delivery(&FaultRates::none(), kind, &mut random), Delivery::WITHOUT_FAULTS);
        }
        assert_eq!(draw_event_outcome(&FaultRates::none(), &mut random), EventOutcome::Passes);
    }

    #[test]
    fn every_usual_fault_happens_to_the_requests_that_it_applies_to() {
        let mut random = Random::new(2);
        let mut outcomes = |kind| -> Vec<RequestOutcome> {
            (0..THROWS).map(|_| draw_delivery(&FaultRates::usual(), kind, &mut random).outcome).collect()
        };
        let (read, watch, create, change) = (
            outcomes(RequestKind::Read),
            outcomes(RequestKind::Watch),
            outcomes(RequestKind::Create),
            outcomes(RequestKind::Change),
        );
        for all in [&read, &watch, &create, &change] {
            for outcome in [
                RequestOutcome::Answered,
                RequestOutcome::Refused(Refusal::TooMany),
                RequestOutcome::Refused(Refusal::Internal),
                RequestOutcome::Refused(Refusal::Unavailable),
                RequestOutcome::Refused(Refusal::Timeout),
                RequestOutcome::Refused(Refusal::Connection),
                RequestOutcome::Hangs { carried_out: true },
                RequestOutcome::Hangs { carried_out: false },
            ] {
                assert!(all.contains(&outcome), "{outcome:?}");
            }
        }
        let conflict = RequestOutcome::Refused(Refusal::Conflict);
        assert!(change.contains(&conflict) && !create.contains(&conflict) && !read.contains(&conflict));
        assert!(change.contains(&RequestOutcome::AnswerLost) && create.contains(&RequestOutcome::AnswerLost));
        assert!(!read.contains(&RequestOutcome::AnswerLost), "a lost answer to a read is a refused connection");
        assert!(
            watch.contains(&RequestOutcome::Expired { as_event: true })
                && watch.contains(&RequestOutcome::Expired { as_event: false })
        );
        assert!(!read.contains(&RequestOutcome::Expired { as_event: true }));
    }

    #[test]
    fn audit_20_lasting_refusals_happen_to_the_requests_that_they_apply_to() {
        let mut random = Random::new(4);
        let rates = FaultRates::with_refusals();
        let mut refusals = |kind| -> Vec<Refusal> {
            let outcomes = (0..THROWS).map(|_| draw_delivery(&rates, kind, &mut random).outcome);
            outcomes
                .filter_map(|outcome| if let RequestOutcome::Refused(refusal) = outcome { Some(refusal) } else { None })
                .collect()
        };
        let (read, create, change) =
            (refusals(RequestKind::Read), refusals(RequestKind::Create), refusals(RequestKind::Change));
        for all in [&read, &create, &change] {
            assert!(all.contains(&Refusal::Unauthorized) && all.contains(&Refusal::Forbidden));
        }
        for of_writes in [Refusal::TooLarge, Refusal::WebhookDenies, Refusal::WebhookFails] {
            assert!(create.contains(&of_writes) && change.contains(&of_writes) && !read.contains(&of_writes));
        }
        assert!(create.contains(&Refusal::Quota) && !change.contains(&Refusal::Quota));
    }

    #[test]
    fn audit_20_lists_and_discovery_are_short_stale_and_incomplete() {
        let mut random = Random::new(5);
        let rates = FaultRates::with_stale_reads();
        let mut deliveries =
            |kind| -> Vec<Delivery> { (0..THROWS).map(|_| draw_delivery(&rates, kind, &mut random)).collect() };
        let has = |deliveries: &[Delivery], outcome: RequestOutcome| {
            deliveries.iter().any(|delivery| delivery.outcome == outcome)
        };
        let (first, next) =
            (deliveries(RequestKind::List { continued: false }), deliveries(RequestKind::List { continued: true }));
        let (read, discovery) = (deliveries(RequestKind::Read), deliveries(RequestKind::Discovery));
        assert!(
            first.iter().any(|delivery| delivery.page_size == Some(1))
                && first.iter().any(|delivery| delivery.page_size == Some(2))
        );
        assert!(has(&first, RequestOutcome::StaleList) && !has(&next, RequestOutcome::StaleList));
        assert!(has(&next, RequestOutcome::ExpiredToken) && !has(&first, RequestOutcome::ExpiredToken));
        assert!(has(&discovery, RequestOutcome::PartialDiscovery) && !has(&read, RequestOutcome::PartialDiscovery));
        assert!(has(&read, RequestOutcome::Truncated) && read.iter().all(|delivery| delivery.page_size.is_none()));
    }

    #[test]
    fn events_are_late_duplicated_and_cut_in_every_way() {
        let mut random = Random::new(3);
        let outcomes: Vec<EventOutcome> =
            (0..THROWS).map(|_| draw_event_outcome(&FaultRates::usual(), &mut random)).collect();
        assert!(outcomes.iter().any(|outcome| matches!(outcome, EventOutcome::Late(_))));
        for outcome in [EventOutcome::Passes, EventOutcome::Duplicated] {
            assert!(outcomes.contains(&outcome), "{outcome:?}");
        }
        for cut in [Cut::Clean, Cut::Broken, Cut::MidLine, Cut::Expired] {
            assert!(outcomes.contains(&EventOutcome::Cut(cut)), "{cut:?}");
        }
        assert!(!outcomes.contains(&EventOutcome::Stalled));
        let mut outcomes = (0..THROWS).map(|_| draw_event_outcome(&FaultRates::with_stalled_watches(), &mut random));
        assert!(outcomes.any(|outcome| outcome == EventOutcome::Stalled));
    }
}
