"""Whose record is it: from key or field to asset and group. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from msgspec.json import Decoder
from numpy.typing import NDArray

from connectors.decoding import diagnose
from connectors.decoding.fast_json import REQUIRED, decode_all, struct_type
from connectors.decoding.readings import Indices, Rejections
from connectors.errors import RecordError
from connectors.record_schema import GroupLayout

_MEMORY = 100_000  # remembered names; a flood of unknown names must not grow memory

Key = bytes | str | None


class Owner(NamedTuple):
    """An asset and its group's number, negative with the reason when nobody asked for it."""

    asset: str
    group: int
    error: RecordError | None = None


class Owners(NamedTuple):
    """Which owner each record of a batch has. A name keeps its number from batch to batch."""

    names: list[str]
    """by number; more than those that occur"""
    errors: dict[int, RecordError]
    number: NDArray[np.int64]
    """of each record's owner"""
    group: NDArray[np.int64]
    """of each record, negative when nobody owns it"""

    def error(self, row: int) -> RecordError:
        return self.errors[int(self.number[row])]


class AssetDirectory:
    """Finds the group of an asset: exact ids first, then patterns in the order of the groups."""

    def __init__(self, groups: Sequence[GroupLayout]) -> None:
        names = [(name, number) for number, group in enumerate(groups) for name in group.assets]
        self._exact = dict(reversed(names))
        self._patterns = [(name, number) for name, number in names if set(name) & set("*?[")]
        self._begin()

    def owners(self, keys: Sequence[Key]) -> Owners:
        """A key is the bytes of a Kafka key, or the text of a field."""
        try:
            number = self._numbers_of(keys)
        except KeyError:
            self._learn(keys)
            number = self._numbers_of(keys)
        return Owners(self._names, self._errors, number, self._groups[number])

    def _begin(self) -> None:
        """With new objects: whoever remembers numbers knows them by the list of names."""
        self._numbers: dict[Key, int] = {}
        self._names: list[str] = []
        self._errors: dict[int, RecordError] = {}
        self._groups = np.empty(0, dtype=np.int64)

    def _numbers_of(self, keys: Sequence[Key]) -> NDArray[np.int64]:
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))

    def _learn(self, keys: Sequence[Key]) -> None:
        if len(self._numbers) >= _MEMORY:
            self._begin()
        found = [self._remember(key) for key in dict.fromkeys(keys) if key not in self._numbers]
        self._groups = np.concatenate([self._groups, np.array(found, dtype=np.int64)])

    def _remember(self, key: Key) -> int:
        """The group of a key that is new."""
        owner, number = self._identify(key), len(self._names)
        self._numbers[key] = number
        self._names.append(owner.asset)
        if owner.error is not None:
            self._errors[number] = owner.error
        return owner.group

    def _identify(self, key: Key) -> Owner:
        try:
            asset = _text(key)
            return Owner(asset, self._group(asset))
        except RecordError as error:
            return Owner("", -1, error)

    def _group(self, asset: str) -> int:
        if asset in self._exact:
            return self._exact[asset]
        for pattern, number in self._patterns:
            if fnmatchcase(asset, pattern):
                return number
        raise RecordError("unknown_asset", f"{asset} belongs to no group", field=None)


def _text(key: Key) -> str:
    if not key:
        raise RecordError("missing_field", "the record has no key to name its asset", field="key")
    if isinstance(key, str):
        return key
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise RecordError("wrong_type", f"the key is not UTF-8: {error}", field="key") from error


class AssetField:
    """Reads the asset id out of JSON values, and nothing else of them."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._decode = Decoder(struct_type([(field, str, REQUIRED)])).decode

    def names(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        rows, indices = decode_all(values, self._decode, self._explain, rejections)
        return [row.f0 for row in rows], indices

    def _explain(self, value: bytes) -> None:
        diagnose.text(diagnose.parse(value), self._field)
