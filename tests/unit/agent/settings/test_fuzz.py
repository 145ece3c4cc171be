"""Whatever stands in the file, the answer is settings or problems, never a traceback."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import SettingsError
from agent.settings import examine
from tests.support.json_places import places, replaced

ROOT = Path(__file__).parents[4]
EXAMPLES = [
    yaml.safe_load((ROOT / "configs" / name).read_text()) for name in ("demo.yaml", "kafka.yaml", "secured.yaml")
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
WORDS = st.sampled_from(["kind", "kafka", "memory", "name", "env", "file", "hop", "1s", "1MiB", "*"])
ANYTHING = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def problems_of(path: Path) -> list[str]:
    try:
        return examine(path, {}).errors
    except SettingsError as refused:
        return refused.problems


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_any_place_is_answered(directory: Path, data: st.DataObject) -> None:
    example = data.draw(st.sampled_from(EXAMPLES))
    place = data.draw(st.sampled_from(places(example)[1:]))
    path = directory / "plant.yaml"
    path.write_text(yaml.safe_dump(replaced(example, place, data.draw(ANYTHING))), encoding="utf-8")
    examination = examine(path, {}, with_secrets=data.draw(st.booleans()))
    json.dumps([problem.message for problem in examination.problems])
    assert (examination.loaded is None) == bool(examination.errors)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes_are_answered(directory: Path, content: bytes) -> None:
    path = directory / "bytes.yaml"
    path.write_bytes(content)
    problems = problems_of(path)
    assert problems
    assert not any("\n" in problem for problem in problems)
