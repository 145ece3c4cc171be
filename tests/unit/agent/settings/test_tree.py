"""The tree itself: described throughout, frozen, and published as a fresh JSON Schema."""

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.settings import Duration, Plant, Retries, settings_schema
from agent.settings.groups import overlap
from agent.settings.section import Section

CONTRACT = Path(__file__).parents[4] / "docs" / "contracts" / "settings.schema.json"


def sections(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, Section):
        yield annotation
        for field in annotation.model_fields.values():
            yield from sections(field.annotation)
    for inner in get_args(annotation):
        yield from sections(inner)


SECTIONS = sorted(set(sections(Plant)), key=lambda section: section.__name__)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_and_setting_says_what_it_means(section: type[Section]) -> None:
    assert section.__doc__
    settings = {name: field for name, field in section.model_fields.items() if name != "kind" or field.description}
    assert [name for name, field in settings.items() if not field.description] == []


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_is_frozen_and_refuses_unknown_keys(section: type[Section]) -> None:
    assert section.model_config["frozen"]
    assert section.model_config["extra"] == "forbid"


def test_the_published_schema_is_fresh() -> None:
    assert json.loads(CONTRACT.read_text()) == settings_schema(), (
        "run: anchormoe-agent schema settings > docs/contracts/…"
    )


def test_durations_and_sizes_have_a_pattern_and_a_readable_default_in_the_schema() -> None:
    every = settings_schema()["$defs"]["Checkpointing"]["properties"]["every"]
    assert every["default"] == "5s"
    assert every["pattern"].endswith("(ns|us|ms|s|m|h|d)$")


def test_the_longest_that_retries_can_take() -> None:
    retries = Retries(attempts=4, first_pause=Duration.parse("1s"), longest_pause=Duration.parse("3s"))
    # four tries of 10 s, pauses of 1, 2 and 3 s in between
    assert retries.worst_case_ns(Duration.parse("10s")) == Duration.parse("46s")


def test_a_great_many_retries_are_summed_without_counting_each() -> None:
    pause = Duration.parse("1s")
    retries = Retries(attempts=10**9, first_pause=pause, longest_pause=pause)
    assert retries.worst_case_ns(0) == (10**9 - 1) * pause


def test_pauses_do_not_shrink() -> None:
    with pytest.raises(ValidationError, match="longest_pause"):
        Retries(first_pause=Duration.parse("6s"), longest_pause=Duration.parse("5s"))


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ("pump-1", "pump-1", True),
        ("pump-1", "pump-2", False),
        ("pump-*", "pump-17", True),
        ("pump-*", "gear-*", False),
        ("*-1", "pump-*", True),
        ("*x", "*y", False),
        ("a?c", "ab*", True),
        ("a?", "a", False),
        ("*", "", True),
        ("**", "*", True),
    ],
)
def test_two_patterns_overlap_when_one_id_fits_both(left: str, right: str, both: bool) -> None:
    assert overlap(left, right) is both
    assert overlap(right, left) is both


@given(st.text("ab", max_size=5), st.text("ab*?", max_size=5), st.text("ab*?", max_size=5))
def test_an_id_that_fits_two_patterns_proves_their_overlap(asset: str, left: str, right: str) -> None:
    if fnmatchcase(asset, left) and fnmatchcase(asset, right):
        assert overlap(left, right)


@given(st.text("ab", max_size=5), st.text("ab*?", max_size=5))
def test_an_id_overlaps_exactly_the_patterns_it_fits(asset: str, pattern: str) -> None:
    assert overlap(asset, pattern) is fnmatchcase(asset, pattern)
