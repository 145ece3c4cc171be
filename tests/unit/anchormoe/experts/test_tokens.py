"""What tokens read, when they count, and how a profile becomes settings."""

import numpy as np
import pytest
import torch

from anchormoe.cases import Cases
from anchormoe.experts.geometry import Geometry, positions_for
from anchormoe.experts.settings import settings_for
from anchormoe.experts.tokens import levels_for_members, prepare, unfold_tokens

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("length", "kernel", "stride", "pool"),
    [(128, 17, 2, 1), (51, 7, 1, 1), (8, 3, 1, 1), (1, 3, 1, 1), (1197, 33, 17, 1), (18000, 33, 17, 15)],
)
def test_the_geometry_follows_from_the_length(length: int, kernel: int, stride: int, pool: int) -> None:
    assert Geometry.for_length(length, positions=64) == Geometry(kernel, stride, pool, length)


@pytest.mark.parametrize("length", [1, 7, 8, 100, 1280, 1281, 5000, 18000])
def test_tokens_read_every_step(length: int) -> None:
    start, stop = Geometry.for_length(length, positions=64).bounds(length)
    read = np.zeros(length, np.bool_)
    for a, b in zip(start, stop, strict=True):
        assert 0 <= a < b <= length
        read[a:b] = True
    assert read.all()


def test_a_token_reads_the_steps_around_its_centre() -> None:
    geometry = Geometry(kernel=3, stride=2, pool=1, length=5)
    read = unfold_tokens(torch.arange(1.0, 6.0)[None, None], geometry)
    assert read[0, 0].tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 0]]
    start, stop = geometry.bounds(5)
    assert list(zip(start.tolist(), stop.tolist(), strict=True)) == [(0, 2), (1, 4), (3, 5)]


def _one(values: list[float], steps: int | None = None) -> Cases:
    cases = Cases.from_arrays(np.array([[values]]))
    return cases if steps is None else cases.resized(steps)


def test_a_token_needs_half_of_its_steps_and_a_centre_inside() -> None:
    nan = float("nan")
    geometry = Geometry(kernel=3, stride=1, pool=1, length=6)
    series = prepare(_one([1, 2, nan, nan, nan, 3], steps=8), geometry, CPU)
    # Steps read per token: 2, 2, 1, 0, 1, 1, and two beyond the series; two are needed.
    assert series.valid.tolist() == [[[True, True, False, False, False, False, False, False]]]
    assert series.length.tolist() == [6]


def test_a_single_valid_step_is_enough_for_the_tokens_that_see_it() -> None:
    nan = float("nan")
    geometry = Geometry(kernel=3, stride=1, pool=1, length=4)
    series = prepare(_one([nan, nan, 2, nan]), geometry, CPU)
    assert series.valid.tolist() == [[[False, True, True, True]]]


def test_gates_of_members_that_are_not_centred_see_the_level() -> None:
    geometry = Geometry(kernel=3, stride=1, pool=1, length=4)
    series = prepare(_one([1, float("nan"), 2, 9], steps=5), geometry, CPU)
    assert series.level.tolist() == [[2.0]]
    assert series.summary.tolist() == [[[2.0, 4.0]]]
    deviation = series.x - series.level[..., None] * series.mask
    both = levels_for_members(deviation[None], series.mask[None], series.level[None], (True, False))
    assert both[:, 0, 0].tolist() == [[-1.0, 0.0, 0.0, 7.0, 0.0], [1.0, 0.0, 2.0, 9.0, 0.0]]


def test_long_series_are_averaged_over_their_valid_steps() -> None:
    geometry = Geometry(kernel=3, stride=1, pool=2, length=5)
    series = prepare(_one([1, 3, float("nan"), 5, 7]), geometry, CPU)
    assert series.x.tolist() == [[[2.0, 5.0, 7.0]]]
    start, stop = geometry.bounds(5)
    assert list(zip(start.tolist(), stop.tolist(), strict=True)) == [(0, 4), (0, 5), (2, 5)]


def test_a_channel_that_is_missing_has_no_tokens_and_leaves_those_of_others() -> None:
    x, mask = np.ones((1, 2, 6), np.float32), np.ones((1, 2, 6), np.bool_)
    mask[0, 0] = False
    series = prepare(Cases.from_windows(x, mask), Geometry(kernel=3, stride=2, pool=1, length=6), CPU)
    assert series.valid.tolist() == [[[False] * 3, [True] * 3]]
    assert series.present.tolist() == [[False, True]]


@pytest.mark.parametrize(("channels", "positions"), [(1, 64), (4, 64), (8, 32), (32, 12), (1400, 12)])
def test_channels_share_a_budget_of_tokens(channels: int, positions: int) -> None:
    assert positions_for(channels, 256) == positions


def test_windows_cut_anywhere_get_no_position_code() -> None:
    assert any(variant.position for variant in settings_for("balanced", "localize", "aligned").variants)
    assert not any(variant.position for variant in settings_for("balanced", "localize", "sliding").variants)


def test_profiles_keep_one_or_two_variants_of_three_folds() -> None:
    assert settings_for("fast").kept == settings_for("balanced").kept == 1
    assert settings_for("accurate").kept == settings_for("fast", "localize").kept == 2
    assert all(variant.centre for variant in settings_for("accurate", "localize").variants)


def test_a_complete_case_is_prepared_the_same_beside_one_with_missing_steps() -> None:
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(2, 3, 40)).astype(np.float32), np.ones((2, 3, 40), np.bool_)
    mask[1, 0, 5:30] = False
    geometry = Geometry.for_length(40, positions=16)
    together = prepare(Cases.from_windows(x, mask), geometry, CPU)
    alone = prepare(Cases.from_windows(x[:1], mask[:1]), geometry, CPU)
    for name in ("x", "level", "summary", "present", "valid", "length"):
        assert torch.equal(getattr(alone, name), getattr(together, name)[:1])
