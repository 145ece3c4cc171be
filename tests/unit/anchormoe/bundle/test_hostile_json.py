"""Whatever stands at any place of a bundle's JSON, the answer is a model or a ModelError, never a traceback."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchormoe.bundle.files import sha256
from anchormoe.bundle.registry import SOURCE_TYPES, SourceTypes
from anchormoe.bundle.store import load_bundle, write_bundle
from anchormoe.errors import ModelError
from tests.support.json_places import places, replaced
from tests.support.linear_source import SOURCES
from tests.unit.anchormoe.bundle.test_store import artefact

FILES = ("config.json", "normalizer.json", "calibration.json", "experts.json", "manifest.json")
WORDS = st.sampled_from(["name", "config", "kernel", "experts", "linear", "kind", "hold", "1", "../x", "conformal"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
SHIPPED = Path(__file__).parents[4] / "configs" / "bundles" / "pump"


def load_changed(directory: Path, data: st.DataObject, sources: SourceTypes) -> None:
    """Changes one value of one file, mends the manifest, loads, and restores the file."""
    name = data.draw(st.sampled_from([file for file in FILES if (directory / file).exists()]))
    before = {file: (directory / file).read_bytes() for file in {name, "manifest.json"}}
    stored = json.loads(before[name])
    content = json.dumps(replaced(stored, data.draw(st.sampled_from(places(stored)[1:])), data.draw(ANYTHING))).encode()
    try:
        (directory / name).write_bytes(content)
        if name != "manifest.json":
            manifest = json.loads(before["manifest.json"])
            manifest["files"][name]["sha256"] = sha256(content)
            (directory / "manifest.json").write_text(json.dumps(manifest))
        with suppress(ModelError):
            load_bundle(directory, sources=sources)
    finally:
        for file, old in before.items():
            (directory / file).write_bytes(old)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hostile") / "demo"
    write_bundle(directory, artefact())
    return directory


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("hostile") / "pump"
    shutil.copytree(SHIPPED, directory)
    return directory


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_value_at_any_place_of_a_small_bundle(written: Path, data: st.DataObject) -> None:
    load_changed(written, data, SOURCES)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_value_at_any_place_of_a_shipped_bundle(shipped: Path, data: st.DataObject) -> None:
    load_changed(shipped, data, SOURCE_TYPES)
