"""A window of a recording by its name and a time: what was known then, cut as training cuts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anchormoe.data.recording_window import find_window
from anchormoe.data.recordings import load_recordings
from anchormoe.errors import DataError
from anchormoe.metrics.evaluate import require_same_windows
from tests.support.linear_source import linear_model

CONFIG = """\
recordings:
  timestamp: ts
  timestamp_unit: s
  channels: {flow: {unit: "m3/h"}, heat: {fill: hold, max_age: 2}}
  labels: {column: state}
  window: {period_s: 1.0, length: 8, hop: 4}
  split: {by: recording, test: ["b"]}
"""


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    for name, first in (("a", 1_000), ("b", 2_000)):
        rows = [f"{first + at},{at},{'' if at == 10 else at * 2},{'bad' if at >= 20 else 'good'}" for at in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["ts,flow,heat,state", *rows]) + "\n")
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path, tmp_path / "config.yaml"


def test_it_is_the_latest_window_that_had_ended_and_the_same_as_in_the_data_set(place: tuple[Path, Path]) -> None:
    found = find_window(*place, recording="b", at_ns=2_019_500_000_000)
    assert (found.start_ns, found.end_ns) == (2_008_000_000_000, 2_016_000_000_000)
    assert (found.label, found.channels) == ("good", ("flow", "heat"))
    test = load_recordings(place[0], config=place[1]).test
    assert test.origins is not None
    at = int(np.flatnonzero(test.origins.start_ns == found.start_ns)[0])
    np.testing.assert_array_equal(found.case.x[0], test.cases.x[at])
    np.testing.assert_array_equal(found.case.mask[0], test.cases.mask[at])
    assert test.origins.recordings[at] == "b"


def test_at_the_very_end_of_a_window_it_is_that_window(place: tuple[Path, Path]) -> None:
    assert find_window(*place, recording="a", at_ns=1_032_000_000_000).label == "bad"
    assert find_window(*place, recording="a", at_ns=1_032_000_000_000).end_ns == 1_032_000_000_000


@pytest.mark.parametrize("at_ns", [1_007_000_000_000, 1_041_000_000_000])
def test_a_time_outside_is_refused_with_the_times_that_there_are(place: tuple[Path, Path], at_ns: int) -> None:
    expected = "--at: windows of a end between 1970-01-01T00:16:48Z and 1970-01-01T00:17:20Z"
    with pytest.raises(DataError, match=expected):
        find_window(*place, recording="a", at_ns=at_ns)


def test_a_name_that_is_not_there_is_refused_with_those_that_are(place: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match="--recording c: there is none; there are a, b"):
        find_window(*place, recording="c", at_ns=0)


def test_its_label_is_by_the_rule_of_the_configuration(place: tuple[Path, Path]) -> None:
    """A beat at the beginning of the window, which the last hop does not show."""
    (place[0] / "labels.csv").write_text("recording,start,end,label\nb,2009,2010,beat\na,1009,1010,beat\n")
    rule = "labels: {intervals: labels.csv, rule: any, default: rest}\n  files: ['a.csv', 'b.csv']"
    place[1].write_text(CONFIG.replace("labels: {column: state}", rule))
    assert find_window(*place, recording="b", at_ns=2_016_000_000_000).label == "beat"
    assert find_window(*place, recording="b", at_ns=2_020_000_000_000).label == "rest"


def test_a_model_of_another_period_or_unit_refuses_it(place: tuple[Path, Path]) -> None:
    found = find_window(*place, recording="b", at_ns=2_020_000_000_000)
    config = replace(linear_model()[0], channels=("flow", "heat"), units=("m3/h", ""), period_ns=1_000_000_000)
    require_same_windows(found, config)
    with pytest.raises(DataError, match="b has a step every 1 s; the model expects one every 2 s"):
        require_same_windows(found, replace(config, period_ns=2_000_000_000))
    with pytest.raises(DataError, match="b: channel 'flow' is in 'm3/h'; the model expects 'L/s'"):
        require_same_windows(found, replace(config, units=("L/s", "")))
