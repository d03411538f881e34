"""The pause of a stalled feed grows while its sink flaps, and begins anew when it has followed."""

from __future__ import annotations

from tidegate.worker.output.resume_pause import ResumePause

_STALL_S = 10.0
_PAUSES_S = [number * _STALL_S for number in range(30)]


def _stalled(pause: ResumePause, now: float) -> float:
    """Return how long the pause is that begins now."""
    pause.stalled(now)
    pause_s = next(pause_s for pause_s in _PAUSES_S if pause.is_over(now + pause_s))
    assert not pause_s or not pause.is_over(now + pause_s - 1e-3)
    return pause_s


def _flap(pause: ResumePause, now: float, followed_s: float) -> tuple[float, float]:
    """The sink follows for a while and stops; gives the pause that comes, and when it is over."""
    pause.live(now)
    pause.acknowledged(now)
    now += followed_s
    pause.followed(now)
    pause_s = _stalled(pause, now)
    return pause_s, now + pause_s


def _flaps(pause: ResumePause, times: int, now: float = 0.0) -> tuple[list[float], float]:
    found = []
    for _ in range(times):
        pause_s, now = _flap(pause, now, 1.0)
        found.append(pause_s)
    return found, now


def test_it_doubles_from_none_to_a_bound() -> None:
    pauses, _ = _flaps(ResumePause(_STALL_S), 8)
    assert pauses == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 200.0, 200.0]


def test_it_begins_anew_when_the_sink_has_followed() -> None:
    pause = ResumePause(_STALL_S)
    _, now = _flaps(pause, 2)
    pause_s, now = _flap(pause, now, 4 * _STALL_S)
    assert pause_s == 0.0
    assert _flap(pause, now, 1.0)[0] == _STALL_S


def test_to_follow_for_less_than_the_last_pause_is_not_enough() -> None:
    pause = ResumePause(_STALL_S)
    _, now = _flaps(pause, 5)
    pause_s, now = _flap(pause, now, 79.0)
    assert pause_s == 160.0
    assert _flap(pause, now, 160.0)[0] == 0.0


def test_patience_grows_with_the_pause_and_stays_far_below_it() -> None:
    pause = ResumePause(_STALL_S)
    assert pause.forgiven_s == 0.0
    now, forgiven = 0.0, []
    for _ in range(8):
        _, now = _flap(pause, now, 1.0)
        forgiven.append(pause.forgiven_s)
    assert forgiven == [0.0, 0.0, 10.0, 30.0, 50.0, 50.0, 50.0, 50.0]


def test_patience_is_forgotten_while_the_sink_follows() -> None:
    pause = ResumePause(_STALL_S)
    _, now = _flaps(pause, 5)
    pause.live(now)
    pause.acknowledged(now + 5)
    pause.followed(now + 5 + 79)
    assert pause.forgiven_s == 5 * _STALL_S
    pause.followed(now + 5 + 80)
    assert pause.forgiven_s == 0.0
    assert _stalled(pause, now + 100) == 0.0


def test_who_lets_batches_wait_too_long_does_not_follow() -> None:
    pause = ResumePause(_STALL_S)
    _, now = _flaps(pause, 5)
    pause.live(now)
    for _ in range(100):
        pause.acknowledged(now)
        pause.followed(now + 79)
        now += 79
        pause.overdue(now)
    pause.followed(now + 79)
    assert pause.forgiven_s == 5 * _STALL_S


def test_a_feed_that_waits_for_its_scans_has_not_followed_yet() -> None:
    """The patience is meant for what they give; a feed for which nothing comes at all is no flap either."""
    pause = ResumePause(_STALL_S)
    _, now = _flaps(pause, 5)
    pause.live(now)
    pause.followed(now + 20 * _STALL_S)
    assert pause.forgiven_s == 5 * _STALL_S
    pause.followed(now + 20 * _STALL_S + 80)
    assert pause.forgiven_s == 0.0


def test_time_in_which_the_feed_was_spooling_is_none_that_it_followed() -> None:
    pause = ResumePause(_STALL_S)
    _, now = _flaps(pause, 2)
    pause.live(now)
    pause.acknowledged(now)
    pause.followed(now + 1)
    assert _stalled(pause, now + 10_000) == 2 * _STALL_S
