"""What a person reads: sparklines and sums that can be checked by eye."""

import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from agent.event_types import NORMAL_STATES
from agent.events.outgoing import OutgoingEvent, WindowResult
from agent.health.counters import Counters
from agent.offline.ground_truth import read_truth
from agent.terminal.sparkline import span_marks, sparkline
from agent.terminal.story import headline, picture, span_lines, sum_line, why_lines
from agent.terminal.views import LineView, LiveView, _state, _sure
from agent.windows.asset_state import AssetState
from tests.support.event_samples import samples


def sighting(kind: str) -> OutgoingEvent:
    found = [one for one in samples().outgoing if one.event.type == kind]
    return next(one for one in found if kind != "state" or one.event.data["evidence"])


def test_a_sparkline_runs_from_the_lowest_to_the_highest_block() -> None:
    assert sparkline(np.arange(8.0), 8) == "▁▂▃▄▅▆▇█"
    assert sparkline(np.full(4, 3.0), 4) == "▅▅▅▅"


def test_a_missing_value_is_a_dot_and_bins_average() -> None:
    assert sparkline(np.array([0.0, np.nan, 1.0]), 3) == "▁·█"
    assert sparkline(np.array([0.0, 0.0, 1.0, 1.0]), 2) == "▁█"
    assert sparkline(np.full(3, np.nan), 3) == "···"


def test_marks_lie_under_the_steps_of_each_span() -> None:
    assert span_marks([(0, 2, 1.0), (4, 6, -1.0)], 8, 8) == "▲▲  ▽▽  "


def test_the_picture_marks_every_shown_span() -> None:
    one = sighting("state")
    *channels, (label, marks) = picture(one, 64)
    assert label == "evidence"
    assert one.window is not None
    steps = one.window.shape[1]
    assert len(marks) == min(64, steps) == len(channels[0][1])
    spans = one.event.data["evidence"]["spans"]
    assert marks.strip()
    assert len(spans) == len(span_lines(one.event.data["evidence"]))


def test_the_sum_line_adds_up_from_its_own_numbers() -> None:
    for one in samples().outgoing:
        if one.event.data.get("evidence"):
            context, shown, rest, score = (
                Decimal(each) for each in sum_line(one.event.data).split() if each[0] in "+-"
            )
            assert context + shown + rest == score


def test_the_rest_of_a_sum_line_has_the_rounding_and_hides_no_wrong_sum() -> None:
    spans = [{"start": "", "end": "", "share": 0.1, "channels": [], "expert": "", "contribution": 0.00245}] * 3
    evidence = {"class": "leak", "context": 1.23456, "spans": spans, "remainder": -0.00045}
    data = {"evidence": evidence, "classes": [{"class": "leak", "logit": 1.24146}]}
    assert sum_line(data) == "context +1.235  shown +0.007  rest -0.001  =  score of leak +1.241"
    huge = {"class": "leak", "context": 1e300, "spans": [], "remainder": 0.0}
    assert sum_line({"evidence": huge, "classes": [{"class": "leak", "logit": 1e300}]}).endswith("000.000")
    wrong = data | {"classes": [{"class": "leak", "logit": 1.25}]}
    assert sum_line(wrong) == "context +1.235  shown +0.007  rest +0.000  =  score of leak +1.250"


def test_the_probability_beside_a_held_state_is_its_own() -> None:
    data = sighting("state").event.data
    first, second, *_ = data["classes"]
    held = data | {"state": second["class"], "previous_state": second["class"]}
    assert f"still {second['class']}  p={second['probability']:.2f}" in headline(held)
    assert f"unknown  p={first['probability']:.2f}" in headline(data | {"state": "unknown"})


def test_every_kind_has_a_headline_that_names_its_asset() -> None:
    for one in samples().outgoing:
        assert one.event.asset in headline(one.event.data)


def test_lines_show_a_state_with_its_evidence() -> None:
    out = io.StringIO()
    view = LineView(Console(file=out, width=200))
    view.published(sighting("state"))
    text = out.getvalue()
    assert "→" in text
    assert sighting("state").event.data["text"] in text
    assert "= " in text.replace("  ", " ")


def test_a_state_of_version_1_has_lines_too() -> None:
    stored = json.loads((Path(__file__).parents[1] / "contracts" / "version_1_events.json").read_text())
    data = next(one["data"] for one in stored if one["data"].get("evidence"))
    assert f"p={max(data['probabilities'].values()):.2f}" in headline(data)
    assert len(span_lines(data["evidence"])) == len(data["evidence"]["patches"])
    assert all("  expert: " in line for line in span_lines(data["evidence"]))
    assert f"{data['logits'][data['evidence']['class']]:+.3f}" in sum_line(data)
    assert why_lines(data) == []


def test_the_board_shows_every_asset_and_the_last_change() -> None:
    out = io.StringIO()
    console = Console(file=out, width=140, height=60, force_terminal=False)
    board = LiveView(console, Counters())
    state = AssetState(10, "a", 4, ("q",))
    board.classified(WindowResult("pump-1", "pumps", state, 10**9, 4 * 10**8, 0.9, None))
    board.published(sighting("state"))
    console.print(board.render())
    text = out.getvalue()
    assert "pump-1" in text
    assert "missing: q" in text
    assert "score of" in text
    assert sighting("state").event.data["text"][:60] in text


def drawn(states: list[str], *, width: int, height: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False)
    board = LiveView(console, Counters())
    for number, state in enumerate(states):
        since_ns = number * 10**9
        board.classified(
            WindowResult(f"pump-{number:03}", "pumps", AssetState(10, state, 4, ()), 10**9, since_ns, 0.9, None)
        )
    board.published(sighting("state"))
    console.print(board.render())
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 40), (120, 30), (60, 24)])
def test_the_board_fits_the_terminal_and_no_picture_is_broken_over_two_lines(width: int, height: int) -> None:
    lines = drawn(["normal"] * 200, width=width, height=height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    one = sighting("state")
    for name, _ in picture(one, 8):
        [line] = [line for line in lines if line.startswith("│") and f"{name}  " in line and "–" not in line]
        assert name == "evidence" or set(line) & set("▁▂▃▄▅▆▇█")


def test_the_board_shows_a_warning_until_it_is_withdrawn_and_still_fits() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=False)
    board = LiveView(console, Counters())
    for number in range(50):
        state = AssetState(10, "normal", 4, ())
        board.classified(WindowResult(f"pump-{number:03}", "pumps", state, 10**9, 0, 0.9, None))
    board.warned("1,204 of 1,300 records dead-lettered in the last 10 s, mostly unknown_channel; check the bundle")
    console.print(board.render())
    lines = out.getvalue().splitlines()
    assert "warning: 1,204 of 1,300 records dead-lettered" in lines[0]
    assert len(lines) <= 24
    board.warned(None)
    out.truncate(0)
    console.print(board.render())
    assert "warning" not in out.getvalue()


def test_a_large_plant_shows_first_what_is_not_normal() -> None:
    lines = drawn(["normal"] * 100 + ["worn", "unknown"] + ["normal"] * 98, width=100, height=36)
    told = "\n".join(lines)
    assert "pump-100" in told
    assert "pump-101" in told
    assert "pump-199" in told  # of the normal ones those that changed last
    assert "pump-000" not in told
    assert "and 190 more" in told


def test_a_heartbeat_is_no_change() -> None:
    data = sighting("state").event.data
    assert "still b" in headline(data | {"state": "b", "previous_state": "b"})
    assert "a → b" in headline(data | {"state": "b", "previous_state": "a"})


@pytest.mark.parametrize("state", sorted(NORMAL_STATES))
def test_a_state_that_is_no_fault_in_the_ground_truth_is_grey_on_the_board(state: str) -> None:
    line = f'{{"asset":"a","state":"{state}","start":"2026-01-01T00:00:00","end":"2026-01-01T00:00:01"}}'
    [interval] = read_truth([line.encode()], "truth.jsonl")
    assert not interval.fault
    assert _state(state).style == _state(state.upper()).style == "dim"
    assert (_state("worn").style, _state("unknown").plain) == ("bold reverse", "░unknown░")


def test_the_board_has_the_words_and_the_order_of_the_page() -> None:
    lines = drawn(["normal", "unknown", "worn"], width=100, height=40)
    head = next(line for line in lines if "asset" in line)
    assert [word for word in head.replace("┃", " ").split() if word.isalpha()] == [
        "asset",
        "state",
        "since",
        "sure",
        "why",
    ]
    assert [line.split()[1] for line in lines if line.startswith("│ pump-")] == ["pump-002", "pump-001", "pump-000"]
    assert any("90 %" in line for line in lines)


@pytest.mark.parametrize(
    ("state", "probability", "words"),
    [("worn", 1.0, "> 99 %"), ("worn", 0.99, "99 %"), ("worn", None, "–"), ("unknown", 0.97, "–")],
)
def test_the_board_is_never_quite_sure_and_not_at_all_of_what_is_unknown(
    state: str, probability: float | None, words: str
) -> None:
    assert _sure(WindowResult("pump-1", "pumps", AssetState(10, state, 4, ()), 10**9, 0, probability, None)) == words


HOSTILE = "pump-\x1b[2J\n\u202e[/x][bold]"


def hostile(kind: str) -> OutgoingEvent:
    """An event with escape sequences, a line break and markup in every name."""
    one = sighting(kind)
    data = json.loads(json.dumps(one.event.data))
    data["asset"] = data["state"] = data["previous_state"] = HOSTILE
    for span in data["evidence"]["spans"]:
        span["expert"] = HOSTILE
    return replace(one, event=replace(one.event, data=data | {"previous_state": "x"}))


def test_lines_escape_what_a_record_or_a_model_named() -> None:
    out = io.StringIO()
    LineView(Console(file=out, width=500)).published(hostile("state"))
    assert "pump-\\x1b[2J\\n\\u202e[/x][bold]" in out.getvalue()
    assert all(line.isprintable() for line in out.getvalue().split("\n"))


def test_the_board_escapes_names_and_takes_none_for_markup() -> None:
    out = io.StringIO()
    console = Console(file=out, width=240, height=60, force_terminal=False)
    board = LiveView(console, Counters())
    board.classified(
        WindowResult(HOSTILE, "pumps", AssetState(10, HOSTILE, 4, (HOSTILE,)), 10**9, 4 * 10**8, 0.9, None)
    )
    board.published(hostile("state"))
    board.warned(f"for example {HOSTILE}")
    console.print(board.render())
    text = out.getvalue()
    assert text.count("[/x][bold]") >= 4
    assert all(line.isprintable() for line in text.split("\n"))
