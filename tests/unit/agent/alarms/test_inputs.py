"""Times of inputs: only RFC 3339 in UTC, to the nanosecond."""

import pytest

from agent.alarms.core.inputs import Tick, decode_input
from connectors.errors import RecordError


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500_000_000),
        ("2023-11-14T22:13:20.000000001Z", 1_700_000_000_000_000_001),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text: str, time_ns: int) -> None:
    assert decode_input(f'{{"kind": "tick", "time": "{text}"}}'.encode()) == Tick(time_ns)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2023-11-14",
        "2023-W46-2T22:13:20Z",
        "2023-11-14T22:13:20",
        "2023-11-14T22:13:20+00:00",
        "2023-11-14 22:13:20Z",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T22:13:20.0000000001Z",
        "2023-13-14T22:13:20Z",
    ],
)
def test_any_other_time_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match=r"^time: "):
        decode_input(f'{{"kind": "tick", "time": "{text}"}}'.encode())
