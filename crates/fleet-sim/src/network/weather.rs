//! What becomes of a request and of a watch event on its way.
//!
//! Decides from chances and random bits alone. Never carries anything.

use std::ops::Range;
use std::time::Duration;

use crate::Random;

/// How bad the network is. Chances are in thousandths, per request or per watch event.
#[derive(Debug, Clone, PartialEq)]
pub struct Weather {
    /// How long a request takes to the server, and its answer back.
    pub latency: Range<Duration>,
    /// Requests that take as long as `slowness` instead.
    pub slow: u32,
    pub slowness: Range<Duration>,
    /// Changes that are refused with 409, as if someone had been quicker.
    pub conflict: u32,
    /// 429.
    pub too_many: u32,
    /// 500, 503 or 504, and nothing happened.
    pub server_error: u32,
    /// The connection fails before the server sees anything.
    pub refused: u32,
    /// The request is carried out, and the answer never arrives.
    pub lost_answer: u32,
    /// The request gets no answer and no error; whether it is carried out is left to another throw.
    pub hang: u32,
    /// Watches that are told at once that their revision is too old.
    pub expired: u32,
    /// Events that are held up, with all that follow them, for `lateness`.
    pub late: u32,
    pub lateness: Range<Duration>,
    /// Events that come twice.
    pub twice: u32,
    /// Events before which the watch ends: in order, with an error, in mid-line, or with 410.
    pub cut: u32,
    /// Events before which the connection dies without a word: neither they nor anything behind them comes, and no end.
    pub silence: u32,
}

impl Weather {
    /// Nothing goes wrong and nothing takes time.
    pub fn calm() -> Self {
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
            twice: 0,
            cut: 0,
            silence: 0,
        }
    }

    /// About one request in six fails, one watch event in eight is late, doubled or the last of its watch.
    pub fn stormy() -> Self {
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
            twice: 40,
            cut: 40,
            silence: 0,
        }
    }

    /// The same, and some watches fall silent, which takes minutes to be noticed.
    pub fn stormy_with_silences() -> Self {
        Self { silence: 20, ..Self::stormy() }
    }
}

/// An answer that the server never gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Conflict,
    TooMany,
    Internal,
    Unavailable,
    Timeout,
    Connection,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Answered,
    Refused(Refusal),
    AnswerLost,
    /// No answer ever; `carried_out` says whether the server saw it.
    Hangs {
        carried_out: bool,
    },
    /// A watch whose revision is said to be gone: as the answer itself, or as the first event.
    Expired {
        as_event: bool,
    },
}

/// A request's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub to: Duration,
    pub back: Duration,
    pub fate: Fate,
}

impl Way {
    /// Nothing happens on it.
    pub const CALM: Self = Self { to: Duration::ZERO, back: Duration::ZERO, fate: Fate::Answered };
}

/// What a request is, as far as the network cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Read,
    Watch,
    /// Creates something: a conflict would be a lie about what exists.
    Create,
    Change,
}

pub(super) fn way(weather: &Weather, sort: Sort, random: &mut Random) -> Way {
    let range = if random.chance(weather.slow) { &weather.slowness } else { &weather.latency };
    let (to, back) = (random.duration(range), random.duration(range));
    Way { to, back, fate: fate(weather, sort, random) }
}

fn fate(weather: &Weather, sort: Sort, random: &mut Random) -> Fate {
    if random.chance(weather.too_many) {
        return Fate::Refused(Refusal::TooMany);
    }
    if random.chance(weather.server_error) {
        let errors = [Refusal::Internal, Refusal::Unavailable, Refusal::Timeout];
        return Fate::Refused(errors[random.index(errors.len())]);
    }
    if random.chance(weather.refused) {
        return Fate::Refused(Refusal::Connection);
    }
    if random.chance(weather.hang) {
        return Fate::Hangs { carried_out: random.chance(500) };
    }
    match sort {
        Sort::Watch if random.chance(weather.expired) => Fate::Expired { as_event: random.chance(500) },
        Sort::Change if random.chance(weather.conflict) => Fate::Refused(Refusal::Conflict),
        Sort::Change | Sort::Create if random.chance(weather.lost_answer) => Fate::AnswerLost,
        _ => Fate::Answered,
    }
}

/// What becomes of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFate {
    Passes,
    Late(Duration),
    Twice,
    Cut(Cut),
    Silenced,
}

/// How a watch ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As if its time were over.
    Clean,
    /// The connection breaks.
    Broken,
    /// The connection breaks within an event.
    MidLine,
    /// The server has forgotten the revision.
    Expired,
}

pub(super) fn event_fate(weather: &Weather, random: &mut Random) -> EventFate {
    if random.chance(weather.late) {
        return EventFate::Late(random.duration(&weather.lateness));
    }
    if random.chance(weather.twice) {
        return EventFate::Twice;
    }
    if random.chance(weather.cut) {
        let cuts = [Cut::Clean, Cut::Broken, Cut::MidLine, Cut::Expired];
        return EventFate::Cut(cuts[random.index(cuts.len())]);
    }
    if random.chance(weather.silence) {
        return EventFate::Silenced;
    }
    EventFate::Passes
}

#[cfg(test)]
mod tests {
    use super::*;

    const THROWS: usize = 20_000;

    #[test]
    fn in_calm_weather_everything_arrives_at_once() {
        let mut random = Random::new(1);
        for sort in [Sort::Read, Sort::Watch, Sort::Create, Sort::Change] {
            assert_eq!(way(&Weather::calm(), sort, &mut random), Way::CALM);
        }
        assert_eq!(event_fate(&Weather::calm(), &mut random), EventFate::Passes);
    }

    #[test]
    fn in_a_storm_every_fault_happens_to_those_it_can_happen_to() {
        let mut random = Random::new(2);
        let mut fates =
            |sort| -> Vec<Fate> { (0..THROWS).map(|_| way(&Weather::stormy(), sort, &mut random).fate).collect() };
        let (read, watch, create, change) =
            (fates(Sort::Read), fates(Sort::Watch), fates(Sort::Create), fates(Sort::Change));
        for all in [&read, &watch, &create, &change] {
            for fate in [
                Fate::Answered,
                Fate::Refused(Refusal::TooMany),
                Fate::Refused(Refusal::Internal),
                Fate::Refused(Refusal::Unavailable),
                Fate::Refused(Refusal::Timeout),
                Fate::Refused(Refusal::Connection),
                Fate::Hangs { carried_out: true },
                Fate::Hangs { carried_out: false },
            ] {
                assert!(all.contains(&fate), "{fate:?}");
            }
        }
        let conflict = Fate::Refused(Refusal::Conflict);
        assert!(change.contains(&conflict) && !create.contains(&conflict) && !read.contains(&conflict));
        assert!(change.contains(&Fate::AnswerLost) && create.contains(&Fate::AnswerLost));
        assert!(!read.contains(&Fate::AnswerLost), "a lost answer to a read is a refused connection");
        assert!(
            watch.contains(&Fate::Expired { as_event: true }) && watch.contains(&Fate::Expired { as_event: false })
        );
        assert!(!read.contains(&Fate::Expired { as_event: true }));
    }

    #[test]
    fn in_a_storm_events_are_late_doubled_and_cut_in_every_way() {
        let mut random = Random::new(3);
        let fates: Vec<EventFate> = (0..THROWS).map(|_| event_fate(&Weather::stormy(), &mut random)).collect();
        assert!(fates.iter().any(|fate| matches!(fate, EventFate::Late(_))));
        for fate in [EventFate::Passes, EventFate::Twice] {
            assert!(fates.contains(&fate), "{fate:?}");
        }
        for cut in [Cut::Clean, Cut::Broken, Cut::MidLine, Cut::Expired] {
            assert!(fates.contains(&EventFate::Cut(cut)), "{cut:?}");
        }
        assert!(!fates.contains(&EventFate::Silenced));
        let mut silences = (0..THROWS).map(|_| event_fate(&Weather::stormy_with_silences(), &mut random));
        assert!(silences.any(|fate| fate == EventFate::Silenced));
    }
}
