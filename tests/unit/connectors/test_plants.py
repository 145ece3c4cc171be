"""Simulated plants: the same sample at any time, faults with a known truth, signals that stay believable."""

import numpy as np
import pytest

from connectors.simulator.plants import KINDS, PlantKind, SimulatedAsset, labelled_recording
from connectors.simulator.plants.episodes import make_episode
from connectors.simulator.plants.noise import normal, smooth, uniform

RANGES: dict[str, list[tuple[float, float]]] = {
    "pump": [(50, 150), (2.5, 11), (15, 70), (0, 15), (35, 75)],
    "gearbox": [(-9, 9), (-9, 9), (65, 110), (200, 800), (45, 80)],
    "patient": [(-1, 2), (-0.5, 2.5), (-2.5, 2.5), (80, 100), (40, 180)],
}


@pytest.fixture(params=KINDS.values(), ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> PlantKind:
    return request.param  # type: ignore[no-any-return]


def test_noise_depends_on_the_index_alone() -> None:
    whole, part = np.arange(1000), np.arange(300, 310)
    for made in (uniform, normal):
        np.testing.assert_array_equal(made(7, "x", whole)[300:310], made(7, "x", part))
    np.testing.assert_array_equal(smooth(7, "x", whole, 40)[300:310], smooth(7, "x", part, 40))


def test_noise_is_uniform_normal_and_not_shared_between_streams() -> None:
    index = np.arange(20_000)
    even, bell = uniform(1, "a", index), normal(1, "a", index)
    assert (even.mean(), even.std()) == pytest.approx((0.5, 12**-0.5), abs=0.01)
    assert (bell.mean(), bell.std()) == pytest.approx((0, 1), abs=0.03)
    assert abs(np.corrcoef(bell, normal(1, "b", index))[0, 1]) < 0.03
    assert abs(np.corrcoef(bell[1:], bell[:-1])[0, 1]) < 0.03


def test_a_recording_is_the_same_whenever_and_however_far_it_is_made(kind: PlantKind) -> None:
    short, long = labelled_recording(kind.name, 3, 1000), labelled_recording(kind.name, 3, 5000)
    for few, many in zip(short[:3], long[:3], strict=True):
        np.testing.assert_array_equal(few, many[:1000])


def test_seeds_and_names_make_individuals(kind: PlantKind) -> None:
    one, other = SimulatedAsset("a", kind, 1), SimulatedAsset("b", kind, 1)
    assert not np.array_equal(one.block(0)[0], other.block(0)[0])
    assert not np.array_equal(one.block(0)[0], SimulatedAsset("a", kind, 2).block(0)[0])


def test_every_state_comes_and_normal_prevails(kind: PlantKind) -> None:
    labels = np.concatenate([labelled_recording(kind.name, seed, 4 * kind.cycle_samples)[2] for seed in range(6)])
    shares = np.bincount(labels, minlength=len(kind.states)) / len(labels)
    assert shares[0] > 0.5
    assert (shares[1:] > 0.04).all()


def test_values_are_finite_and_in_the_range_of_their_unit(kind: PlantKind) -> None:
    assert len(kind.channels) == len(kind.units) == 5
    for seed in range(4):
        _, values, _, _ = labelled_recording(kind.name, seed, 4 * kind.cycle_samples)
        for channel, (low, high) in zip(values.T, RANGES[kind.name], strict=True):
            assert low <= channel.min() < channel.max() <= high


def test_signals_do_not_jump_where_blocks_meet(kind: PlantKind) -> None:
    _, values, _, _ = labelled_recording(kind.name, 5, 12 * kind.block_samples)
    steps = np.abs(np.diff(values, axis=0))
    seams = steps[kind.block_samples - 1 :: kind.block_samples]
    assert (seams <= steps.max(axis=0)).all()
    assert (seams.mean(axis=0) <= 3 * steps.mean(axis=0) + 0.2).all()


def test_the_state_at_a_sample_is_its_label(kind: PlantKind) -> None:
    asset = SimulatedAsset("a", kind, 11)
    for block in range(8):
        _, labels = asset.block(block)
        for row in range(0, kind.block_samples, 50):
            assert asset.state_at(block * kind.block_samples + row) == kind.states[labels[row]]


def test_an_episode_fits_its_cycle_and_adds_whole_turns() -> None:
    for cycle in range(50):
        fault = make_episode(1, cycle, states=4, cycle_samples=1024)
        ends = np.array([0, 1024])
        assert fault.strength(ends).tolist() == [0, 0]
        assert fault.slow_strength(ends).tolist() == [0, 0]
        assert fault.turns(ends, 1.5, 0.1) == pytest.approx([0, round(fault.turns(ends, 1.5, 0.1)[1])], abs=1e-9)
