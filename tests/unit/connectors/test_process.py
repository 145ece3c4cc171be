"""The made-up process: one state per recording, faults where the physics puts them."""

import numpy as np
import pytest

from connectors.simulator.process import CHANNELS, LOOPS, STATES, process_recording, recording_name
from connectors.simulator.recordings import RECORDED, simulated_recording


@pytest.fixture(scope="module")
def first_round() -> dict[str, np.ndarray]:
    return {STATES[seed]: process_recording(seed, 480)[1] for seed in range(len(STATES))}


def furthest(values: np.ndarray, normal: np.ndarray) -> str:
    """The channel whose mean is furthest from normal, in its deviations."""
    return CHANNELS[int((np.abs(values.mean(0) - normal.mean(0)) / normal.std(0)).argmax())]


def test_it_has_fifty_channels_and_a_state_for_each_of_eight_recordings() -> None:
    assert len(CHANNELS) == len(set(CHANNELS)) == 50
    time_ns, values, labels, states = process_recording(3, 20)
    assert (time_ns[1] - time_ns[0]) == 180 * 10**9
    assert values.shape == (20, 50)
    assert {states[label] for label in labels} == {"cooling_step"}
    assert recording_name(3) == "process-0-cooling_step"
    assert recording_name(11) == "process-1-cooling_step"


def test_a_recording_is_the_same_each_time_and_differs_from_the_next_round() -> None:
    first, again, other = (process_recording(seed, 50)[1] for seed in (1, 1, 9))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("state", "channels"),
    [
        ("feed_step", {"feed_a_valve", "feed_b_valve"}),
        ("cooling_step", {"reactor_temp_valve"}),
        ("feed_loss", {"feed_a_valve", "feed_a"}),
        ("pressure_loss", {"reactor_pressure_valve"}),
        ("slow_drift", {"condenser_temp_valve"}),
    ],
)
def test_a_level_fault_moves_its_own_valve_most(
    first_round: dict[str, np.ndarray], state: str, channels: set[str]
) -> None:
    assert furthest(first_round[state], first_round["normal"]) in channels


def test_controllers_hold_the_loops_at_their_set_points(first_round: dict[str, np.ndarray]) -> None:
    normal, cooling = (first_round[state][:, : len(LOOPS)] for state in ("normal", "cooling_step"))
    assert (np.abs(cooling.mean(0) - normal.mean(0)) < 0.5 * normal.std(0)).all()


def test_a_drift_grows_and_a_sticking_valve_swings(first_round: dict[str, np.ndarray]) -> None:
    drift = first_round["slow_drift"][:, CHANNELS.index("condenser_temp_valve")]
    assert abs(drift[-100:].mean() - drift[:100].mean()) > drift[:100].std()
    at = CHANNELS.index("reactor_temp")
    assert first_round["sticking_valve"][:, at].std() > 1.5 * first_round["normal"][:, at].std()


def test_a_recording_is_written_with_its_state_in_every_row() -> None:
    made = simulated_recording("process", 7, 3)
    header, *rows = made.to_csv().splitlines()
    assert header == ",".join(["ts", *CHANNELS, "state"])
    assert [row.split(",")[0] for row in rows] == ["0", "180000", "360000"]
    assert {row.rsplit(",", 1)[1] for row in rows} == {"sticking_valve"}
    assert RECORDED == ("pump", "gearbox", "patient", "process")
