"""The fuzzer itself: it repeats itself, finds what is put in its way, makes it small, and goes on where it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.campaign import plan
from tests.fuzz.cases import Input, Outcome, Regression, read, save, shape
from tests.fuzz.ledger import Ledger, Line
from tests.fuzz.mutation import mutate_bytes, mutate_document, parsed, write
from tests.fuzz.page import page
from tests.fuzz.runner import run_chunk
from tests.fuzz.shrink import Budget, ddmin, shrink

SAMPLE = {"ts": 1, "values": {"flow": [1.5, None]}, "name": "x"}


@dataclass(frozen=True, slots=True)
class Trap:
    """A door that breaks in one way for one kind of input."""

    name: str = "trap"
    variants: Sequence[str] = ("plain",)
    batch: int = 50
    renew_after: int = 200

    def open(self, variant: str) -> "TrapSession":
        return TrapSession()


class TrapSession:
    def __init__(self) -> None:
        self._seen = 0

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [Input(bytes(rng.choices(b"abcdefgh", k=12))) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for index, each in enumerate(inputs):
            value = each.value or b""
            if b"ab" in value:
                raise KeyError("ab")
            if b"cd" in value:
                outcome.violate("silent", "cd was dropped", index)
            else:
                outcome.used += 1
        return outcome

    def close(self) -> None:
        """Nothing is open."""


def test_the_same_seed_gives_the_same_bytes() -> None:
    def some(seed: int) -> list[bytes]:
        rng = Random(seed)
        node = parsed(SAMPLE)
        return [mutate_bytes(write(mutate_document(node, rng)), rng) for _ in range(200)]

    assert some(1) == some(1)
    assert some(1) != some(2)


def test_a_document_that_is_not_changed_is_written_as_it_was() -> None:
    assert write(parsed(SAMPLE)) == b'{"ts":1,"values":{"flow":[1.5,null]},"name":"x"}'


def test_crashes_and_drops_are_counted_per_input_and_made_small() -> None:
    result = run_chunk(Trap(), "plain", 3, 2_000)
    written = [each.value or b"" for each in _all_inputs(result.seed)]
    crashes = sum(b"ab" in value for value in written)
    dropped = sum(b"cd" in value and b"ab" not in value for value in written)
    assert crashes > 0
    assert result.failures == {"crash": crashes, "silent": dropped}
    assert result.outcome.used == 2_000 - crashes - dropped
    found = {
        finding.signature: [each.value for each in finding.regression.inputs] for finding in result.findings.values()
    }
    assert sorted(values for values in found.values()) == [[b"ab"], [b"cd"]]


def _all_inputs(seed: int) -> list[Input]:
    rng = Random(f"trap/plain/{seed}")
    return [each for _ in range(40) for each in TrapSession().generate(rng, 50, [])]


def test_ddmin_keeps_what_is_needed_and_nothing_else() -> None:
    kept = ddmin(list(range(100)), lambda part: {3, 57, 99} <= set(part), Budget(10_000, 60))
    assert list(kept) == [3, 57, 99]


def test_shrinking_leaves_out_headers_keys_and_bytes_that_do_not_matter() -> None:
    noisy = [Input(b"xxxxboomxxxx", b"fan", (("h", b"1"),), 5, "place"), Input(b"y")]
    assert shrink(noisy, lambda part: any(b"boom" in (each.value or b"") for each in part)) == [
        Input(b"boom", b"pump-1")
    ]


@pytest.mark.parametrize(
    "given",
    [
        Input(None),
        Input(b"", b""),
        Input(b"\xff\x00", b"\xfe", (("a", None), ("a", b"\xff")), -5, "readings/1"),
        Input(b"[" + b"\x00" * 1_000_000 + b"]", b"pump-1"),
    ],
)
def test_a_failure_comes_back_from_its_files_as_it_was(tmp_path: Path, given: Input) -> None:
    regression = Regression("wide", "wide-ignore", "crash: x", (given, Input(b"{}")))
    path = save(regression, tmp_path, "one")
    assert read(path.with_suffix(".json")) == regression
    assert path.stat().st_size < 1_000


def test_a_run_goes_on_where_the_ledger_ends(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    doors = {"wide": ["a", "b"], "bundles": ["c"]}
    first = list(plan(ledger, doors, 100_000, 1))
    assert sum(task.count for task in first) == 100_000
    for task in first[:4]:
        ledger.append(Line(task.door, task.variant, task.seed, task.number, task.count))
    rest = list(plan(Ledger(tmp_path / "ledger.jsonl"), doors, 100_000, 1))
    assert sum(task.count for task in rest) == 100_000 - sum(task.count for task in first[:4])
    assert not {(task.door, task.number) for task in rest} & {(task.door, task.number) for task in first[:4]}


def test_the_page_shows_what_was_counted_and_found() -> None:
    line = Line(
        "wide", "wide-ignore", 1, 0, 1_234, used=1_000, ignored=30, control=4, refused={"late": 199},
        failures={"crash": 1, "unescaped": 2}, findings={"crash: KeyError at x": 1}, slowest_s=0.5, seconds=60.0,
        process_s=2.0, worker="1", commit="abc1234", at="2026-01-01 00:00", versions={"python": "3.11"},
    )  # fmt: skip
    text = page([line], "make fuzz N=1")
    row = next(row for row in text.splitlines() if row.startswith("| wide |"))
    assert row.startswith("| wide | 1,234 | 1,000 | 30 | 4 | 199 | 1 | 0 | 0 | 0 | 0 | 2 |")
    assert "abc1234 (1,234)" in text
    assert "| wide | `crash: KeyError at x` | abc1234 | 1 |" in text
    assert "| wide | late 199 |" in text


def test_messages_that_differ_in_names_and_numbers_have_one_shape() -> None:
    assert shape("'flow' has 12 of 13 samples") == shape("'pressure' has 1 of 200 samples")
