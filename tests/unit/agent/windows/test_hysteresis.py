from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.windows.hysteresis import BLOCK, Said, Track, Tracks, milli_bound

BOUND = milli_bound(4.0)
CLASSES = ("normal", "worn", "blocked")


def said(state: str, probability: float = 0.9, reason: str | None = None) -> Said:
    """The rest of the probability is shared by the other classes; `unknown` doubts between the first two."""
    if state == "unknown":
        return Said("unknown", reason or "low_margin", {"normal": 0.45, "worn": 0.45, "blocked": 0.1})
    others = (1 - probability) / (len(CLASSES) - 1)
    return Said(state, None, {name: probability if name == state else others for name in CLASSES})


def told(windows: Sequence[Said], first: int = 1) -> list[str]:
    """The states after each window; the first one is told at once."""
    tracks = Tracks.begin(windows[0].state, windows[0].reason)
    states = [tracks.older.state]
    for at, one in enumerate(windows[1:], first + 1):
        tracks = tracks.after(one, window=at, bound=BOUND)
        states.append(tracks.older.state)
    return states


NORMAL, WORN, DOUBT = said("normal"), said("worn"), said("unknown")


def test_a_single_window_changes_nothing() -> None:
    assert set(told([NORMAL] * 5 + [WORN] + [NORMAL] * 5)) == {"normal"}
    assert set(told([NORMAL] * 5 + [said("worn", 0.9999999)] + [NORMAL] * 5)) == {"normal"}


def test_windows_that_agree_change_the_state_the_surer_the_sooner() -> None:
    sure = told([NORMAL] + [said("worn", 0.99)] * 5)
    unsure = told([NORMAL] + [said("worn", 0.6)] * 5)
    assert sure == ["normal", "normal"] + ["worn"] * 4
    assert unsure == ["normal"] * 4 + ["worn"] * 2  # log(0.6 / 0.2) = 1.1 in each


def test_flicker_is_held() -> None:
    assert set(told([NORMAL] + [WORN, NORMAL, NORMAL] * 30)) == {"normal"}


def test_where_two_states_are_as_likely_it_changes_once_a_block_at_most() -> None:
    states = told([NORMAL] + [WORN, NORMAL] * 40)
    changes = sum(one != other for one, other in pairwise(states))
    assert changes <= len(states) // BLOCK


def test_doubt_must_last_before_the_state_is_unknown() -> None:
    assert set(told([NORMAL] + [DOUBT] * 3 + [NORMAL])) == {"normal"}
    assert told([NORMAL] + [DOUBT] * 4)[-1] == "unknown"


def test_out_of_unknown_by_windows_that_agree() -> None:
    assert told([DOUBT, NORMAL, NORMAL, NORMAL]) == ["unknown", "unknown", "normal", "normal"]


@pytest.mark.parametrize("reason", ["low_coverage", "history_lost", "channel_missing", "implausible_values"])
def test_what_a_window_cannot_know_is_told_at_once_and_is_over_at_once(reason: str) -> None:
    lost = Said("unknown", reason, None if reason == "low_coverage" else {"normal": 1.0})
    assert told([NORMAL, lost, WORN]) == ["normal", "unknown", "worn"]


def test_a_model_with_other_classes_speaks_for_itself() -> None:
    other = Said("leak", None, {"tight": 0.2, "leak": 0.8})
    assert told([NORMAL, other]) == ["normal", "leak"]


def test_the_reason_of_unknown_is_that_of_its_last_window() -> None:
    track = Track("unknown", "low_margin").after(said("unknown", reason="conformal"), BOUND)
    assert (track.state, track.reason) == ("unknown", "conformal")


@given(st.lists(st.sampled_from([NORMAL, WORN, DOUBT, said("blocked", 0.5)]), min_size=1, max_size=90), st.data())
def test_a_state_follows_from_two_blocks_of_windows_whatever_was_before(
    windows: list[Said], data: st.DataObject
) -> None:
    """So windows that were lost can be rebuilt from a limited part of the log."""
    first = data.draw(st.integers(1, 40))
    start = data.draw(st.integers(0, len(windows) - 1))
    whole, rebuilt = told(windows, first), told(windows[start:], first + start)
    assert whole[start + 2 * BLOCK :] == rebuilt[2 * BLOCK :]
