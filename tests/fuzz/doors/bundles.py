"""The door for bundles: one file is changed, the manifest is made to agree, and the bundle is loaded."""

import json
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit, setrlimit

import numpy as np

from anchormoe import Predictor
from anchormoe.bundle.files import sha256
from anchormoe.bundle.registry import SOURCE_TYPES, SourceTypes
from anchormoe.bundle.store import write_bundle
from anchormoe.errors import ModelError
from tests.fuzz.cases import Input, Outcome, shape
from tests.fuzz.mutation import NAMES, Node, mutate_bytes, mutate_document, parsed, write
from tests.support.linear_source import SOURCES, windows

LINEAR = "linear"
SHIPPED = Path(__file__).parents[3] / "configs" / "bundles"
_MANIFEST = "manifest.json"
_ROOM = 3 << 30
"""bytes of address space that loading may take beyond what the process has"""
_NAMES = (*NAMES, *(b'"%b"' % name for name in (b"parts", b"tensors", b"classes", b"channels", b"length", b"config")))


@dataclass(frozen=True, slots=True)
class BundleDoor:
    name: str = "bundles"
    batch: int = 25
    renew_after: int = 1 << 60

    @property
    def variants(self) -> Sequence[str]:
        return (LINEAR, *sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()))

    def open(self, variant: str) -> "BundleSession":
        return BundleSession(variant)


class BundleSession:
    def __init__(self, variant: str) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="fuzz-bundle-")
        self._directory = Path(self._place.name) / variant
        self._sources: SourceTypes = SOURCE_TYPES
        if variant == LINEAR:
            from tests.unit.anchormoe.bundle.test_store import artefact

            self._sources = SOURCES
            write_bundle(self._directory, artefact())
        else:
            shutil.copytree(SHIPPED / variant, self._directory)
        Predictor.load(self._directory, sources=self._sources)  # what it imports does not count as its memory
        self._files = {path.name: path.read_bytes() for path in sorted(self._directory.iterdir())}

    def generate(self, rng: Random, count: int, pool: Sequence[Input]) -> list[Input]:
        return [self._changed(rng, pool) for _ in range(count)]

    def feed(self, inputs: Sequence[Input]) -> Outcome:
        outcome = Outcome()
        for index, each in enumerate(inputs):
            name = each.place if each.place in self._files else "config.json"
            try:
                self._replace(name, each.value or b"")
                with _limit_memory():
                    self._load(index, outcome)
                outcome.used += 1
            except ModelError as error:
                outcome.refused["ModelError"] += 1
                outcome.traits.append((index, shape(str(error))))
            finally:
                for restored in (name, _MANIFEST):
                    (self._directory / restored).write_bytes(self._files[restored])
        return outcome

    def close(self) -> None:
        self._place.cleanup()

    def _load(self, index: int, outcome: Outcome) -> None:
        """What is loaded must be usable: it predicts, and its names can be published."""
        predictor = Predictor.load(self._directory, sources=self._sources)
        json.dumps([*predictor.config.classes, *predictor.config.channels], ensure_ascii=False).encode()
        if self._sources is SOURCES and predictor.config.length == windows(1)[0].shape[2]:
            with np.errstate(all="ignore"):
                prediction = predictor.predict(*windows(2))
            if not np.isfinite(prediction.logits).all():
                outcome.violate("non_finite", "a loaded model gives a score that is not finite", index)

    def _replace(self, name: str, content: bytes) -> None:
        (self._directory / name).write_bytes(content)
        if name == _MANIFEST:
            return
        manifest = json.loads(self._files[_MANIFEST])
        manifest["files"][name] = {"sha256": sha256(content), "bytes": len(content)}
        (self._directory / _MANIFEST).write_text(json.dumps(manifest))

    def _changed(self, rng: Random, pool: Sequence[Input]) -> Input:
        if pool and rng.random() < 0.1:
            earlier = rng.choice(pool)
            return Input(mutate_bytes(earlier.value or b"", rng), place=earlier.place)
        weighted = [name for name in self._files for _ in range(4 if name == "config.json" else 1)]
        name = rng.choice(weighted)
        content = self._files[name]
        if name.endswith(".json") and rng.random() < 0.85:
            return Input(_mutated_json(content, rng), place=name)
        if name.endswith(".safetensors") and rng.random() < 0.7:
            return Input(_mutated_tensors(content, rng), place=name)
        return Input(mutate_bytes(content, rng), place=name)


def _mutated_json(content: bytes, rng: Random) -> bytes:
    node: Node = parsed(json.loads(content))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        node = mutate_document(node, rng, _NAMES)
    return write(node)


def _mutated_tensors(content: bytes, rng: Random) -> bytes:
    """safetensors: a length, a JSON header of that length, the data."""
    (size,) = struct.unpack("<Q", content[:8])
    header, data = content[8 : 8 + size], content[8 + size :]
    kind = rng.random()
    if kind < 0.5:
        header = _mutated_json(header, rng)
        size = len(header)
    elif kind < 0.7:
        at = 4 * rng.randrange(max(len(data) // 4, 1))
        data = data[:at] + rng.choice([b"\x00\x00\x80\x7f", b"\x00\x00\xc0\x7f", b"\xff\xff\x7f\x7f"]) + data[at + 4 :]
    else:
        data = mutate_bytes(data, rng)
    if rng.random() < 0.1:
        size = rng.choice([0, 1, size - 1, size + 1, len(content), 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", size % 2**64) + header + data


@contextmanager
def _limit_memory() -> Iterator[None]:
    """A bundle must not be able to take all memory: more than this much raises MemoryError, which is a crash."""
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * 4096
    before = getrlimit(RLIMIT_AS)
    setrlimit(RLIMIT_AS, (held + _ROOM, before[1] if before[1] != RLIM_INFINITY else RLIM_INFINITY))
    try:
        yield
    finally:
        setrlimit(RLIMIT_AS, before)
