"""Which of many channels a member reads: those whose figures tell the classes of its own cases apart."""

import numpy as np

from anchormoe.cases import Cases
from anchormoe.experts.channels import choose_channels

RNG = np.random.default_rng(0)
Y = np.arange(40, dtype=np.int64) % 2


def _cases() -> Cases:
    """Of 50 channels the 7th differs in its level, the 30th in its spread, the 41st late; the 20th is constant."""
    x = RNG.normal(size=(40, 50, 32))
    x[Y == 1, 7] += 2
    x[Y == 1, 30] *= 5
    x[Y == 1, 41, 24:] -= 3
    x[:, 20] = 1.5
    return Cases.from_arrays(x)


def test_few_channels_are_all_read() -> None:
    assert choose_channels(_cases(), Y, np.ones((1, 40), np.bool_), most=50) == ()


def test_channels_that_tell_the_classes_apart_are_chosen() -> None:
    assert choose_channels(_cases(), Y, np.ones((1, 40), np.bool_), most=3) == ((7, 30, 41),)


def test_each_member_chooses_on_the_cases_it_trains_on() -> None:
    cases = _cases()
    trained = np.tile(np.arange(40) < 20, (2, 1))
    trained[1] = ~trained[1]
    cases.x[20:, 7] = cases.x[20:, 3]  # no difference in the second half
    first, second = choose_channels(cases, Y, trained, most=3)
    assert 7 in first
    assert 7 not in second


def test_missing_values_do_not_count() -> None:
    cases = _cases()
    cases.mask[:, 2] = Y[:, None] == 1
    cases.x[:, 2] = 0.0
    cases.mask[:, 5] = False
    assert choose_channels(cases, Y, np.ones((1, 40), np.bool_), most=3) == ((7, 30, 41),)
