//! The clock of a log partition (`tidegate/processor/log_clock.py`), and which timestamps are believed by it
//! (`tidegate/processor/moving/horizon.py`).

const ABOVE_CLOSED_MS: i64 = 5_000;
const LEAD_MS: i64 = 5_000;
const STEP_MS: i64 = 30_000;
const BACK_MS: i64 = 10_000;
const SETTLED_MS: i64 = 30_000;
const HEARINGS: i64 = 32;
const GRAIN_MS: i64 = 1_000;
const ONE_IN: i64 = 32;
const ONE_IN_FAR_BELOW: i64 = 5;
const SHIFTS: i64 = 3;
const BELOW_MAX: i64 = 32;
const VOICES_MAX: usize = 8;

pub const AHEAD_MAX_MS: i64 = 86_400_000;
pub const NANOS_PER_MS: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Voice {
    pub range_id: i64,
    pub shown_ms: i64,
    pub closed_ms: i64,
    pub counted_ms: i64,
    pub heard: i64,
}

/// The clock, with its voices in the order in which they became known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogClock {
    pub time_ms: i64,
    pub shown_ms: i64,
    pub closed_ms: i64,
    pub elapsed_ms: i64,
    pub counted_ms: i64,
    pub hearings: i64,
    pub passed: i64,
    pub fell_at: Option<i64>,
    pub others_ms: i64,
    pub below: i64,
    pub voices: Vec<Voice>,
}

impl LogClock {
    pub fn wants(&mut self, time_ms: i64) -> bool {
        if time_ms > self.time_ms {
            return true;
        }
        self.passed += 1;
        if self.passed < ONE_IN && (self.passed < ONE_IN_FAR_BELOW || time_ms > self.time_ms - BACK_MS) {
            return false;
        }
        self.passed = time_ms.rem_euclid(SHIFTS);
        true
    }

    pub fn hear(&mut self, range_id: i64, time_ms: i64, closed_ms: i64, rose: bool) {
        let known = self.voices.iter().position(|voice| voice.range_id == range_id);
        let mut closed_ms = closed_ms;
        match known {
            Some(at) => closed_ms = closed_ms.max(self.voices[at].closed_ms),
            None if !rose => return,
            None => {}
        }
        if closed_ms == 0 {
            return;
        }
        let shown_ms = time_ms.min(closed_ms + ABOVE_CLOSED_MS);
        match known {
            None => {
                let heard = self.hearings;
                self.voices.push(Voice { range_id, shown_ms, closed_ms, counted_ms: closed_ms, heard });
                self.forget_those_too_many();
            }
            Some(at) if closed_ms - self.voices[at].counted_ms >= GRAIN_MS => {
                self.hearings += 1;
                let heard = self.hearings;
                self.voices[at] = Voice { range_id, shown_ms, closed_ms, counted_ms: closed_ms, heard };
                self.forget_those_too_many();
            }
            Some(at) => {
                self.voices[at].shown_ms = shown_ms;
                self.voices[at].closed_ms = closed_ms;
            }
        }
        self.settle();
    }

    fn is_silent(&self, voice: &Voice) -> bool {
        voice.heard <= self.hearings - HEARINGS
    }

    fn forget_those_too_many(&mut self) {
        let mut silent: Vec<Voice> =
            self.voices.iter().filter(|voice| self.is_silent(voice)).copied().collect();
        silent.sort_by_key(|voice| voice.heard);
        for voice in &silent[..silent.len().saturating_sub(VOICES_MAX)] {
            self.voices.retain(|each| each.range_id != voice.range_id);
        }
        let waited_for = || self.voices.iter().enumerate().filter(|(_, voice)| !self.is_silent(voice));
        if waited_for().count() > VOICES_MAX {
            if let Some((at, _)) = waited_for().min_by_key(|(_, voice)| voice.shown_ms) {
                let forgotten = self.voices.remove(at);
                self.hear_one_of_many(forgotten);
            }
        }
    }

    fn hear_one_of_many(&mut self, voice: Voice) {
        let more_ms = voice.closed_ms - self.others_ms;
        if more_ms <= -GRAIN_MS {
            self.below += 1;
            if self.below >= BELOW_MAX {
                (self.others_ms, self.below) = (voice.closed_ms, 0);
            }
            return;
        }
        self.below = 0;
        if more_ms < GRAIN_MS {
            return;
        }
        self.others_ms = voice.closed_ms;
        self.hearings += 1;
        if self.voices.iter().filter(|each| !self.is_silent(each)).count() < VOICES_MAX {
            self.voices.push(Voice { counted_ms: voice.closed_ms, heard: self.hearings, ..voice });
        }
    }

    fn settle(&mut self) {
        let (mut count, mut shown, mut closed) = (0, (0, 0), (0, 0));
        for voice in self.voices.iter().filter(|voice| !self.is_silent(voice)) {
            count += 1;
            raise(&mut shown, voice.shown_ms);
            raise(&mut closed, voice.closed_ms);
        }
        if count == 0 {
            return;
        }
        if count == 1 {
            (shown.1, closed.1) = (shown.0, closed.0);
        }
        self.shown_ms = shown.1;
        self.time_ms = shown.0.min(shown.1 + LEAD_MS);
        self.closed_ms = closed.1;
        self.count();
    }

    fn count(&mut self) {
        let moved_ms = self.time_ms - self.counted_ms;
        if self.counted_ms == 0 {
            self.counted_ms = self.time_ms;
        } else if moved_ms >= 0 {
            self.elapsed_ms += moved_ms.min(STEP_MS);
            (self.counted_ms, self.fell_at) = (self.time_ms, None);
        } else if moved_ms > -BACK_MS {
            self.fell_at = None;
        } else {
            match self.fell_at {
                None => self.fell_at = Some(self.time_ms),
                Some(fell_at) if self.time_ms - fell_at >= SETTLED_MS => {
                    (self.counted_ms, self.fell_at) = (self.time_ms, None);
                }
                Some(_) => {}
            }
        }
    }
}

/// Keeps the two highest times.
fn raise((first, second): &mut (i64, i64), time_ms: i64) {
    if time_ms > *first {
        (*first, *second) = (time_ms, *first);
    } else if time_ms > *second {
        *second = time_ms;
    }
}

/// Which wall times are believed without a look at the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Horizon {
    pub believed: i64,
}

impl Horizon {
    /// Refuses a wall time that is too far ahead of its record's time and of the log's.
    pub fn require(&mut self, wall: i64, clock: &LogClock, record_ms: i64) -> Option<()> {
        self.believed = ahead(clock.time_ms);
        (wall <= ahead(record_ms.max(clock.time_ms))).then_some(())
    }
}

fn ahead(time_ms: i64) -> i64 {
    time_ms.saturating_add(AHEAD_MAX_MS).saturating_mul(NANOS_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranges_show_the_time_and_one_alone_does() {
        let mut clock = LogClock { elapsed_ms: 1, ..LogClock::default() };
        assert!(clock.wants(10_000));
        clock.hear(1, 10_000, 9_000, true);
        assert_eq!((clock.time_ms, clock.closed_ms), (10_000, 9_000));
        clock.hear(2, 30_000, 29_000, true);
        assert_eq!((clock.time_ms, clock.shown_ms), (15_000, 10_000));
        assert_eq!(clock.elapsed_ms, 5_001);
    }

    #[test]
    fn records_below_log_time_are_heard_now_and_then() {
        let mut clock = LogClock { time_ms: 100_000, ..LogClock::default() };
        assert_eq!((0..64).filter(|_| clock.wants(99_999)).count(), 2);
        let mut far = LogClock { time_ms: 100_000, ..LogClock::default() };
        assert_eq!((0..64).filter(|_| far.wants(0)).count(), 12);
    }

    #[test]
    fn a_voice_that_closes_nothing_is_not_known() {
        let mut clock = LogClock::default();
        clock.hear(1, 10, 0, true);
        clock.hear(1, 10, 5, false);
        assert_eq!(clock, LogClock::default());
    }

    #[test]
    fn voices_are_few() {
        let mut clock = LogClock::default();
        for range_id in 1..100 {
            clock.hear(range_id, range_id * 2_000, range_id * 2_000, true);
        }
        assert!(clock.voices.len() <= 2 * VOICES_MAX);
    }

    #[test]
    fn a_day_ahead_is_believed_and_no_more() {
        let clock = LogClock { time_ms: 1, ..LogClock::default() };
        let mut horizon = Horizon::default();
        let day = (AHEAD_MAX_MS + 1) * NANOS_PER_MS;
        assert!(horizon.require(day, &clock, -1).is_some());
        assert_eq!(horizon.believed, day);
        assert!(horizon.require(day + 1, &clock, 1).is_none());
        assert!(horizon.require(day + 1, &clock, 2).is_some());
        assert!(horizon.require(i64::MAX, &clock, i64::MAX).is_some());
    }
}
