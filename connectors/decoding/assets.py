"""Finds the asset and the group of each record, by its key or by a field. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from msgspec.json import Decoder
from numpy.typing import NDArray

from connectors.decoding import diagnose
from connectors.decoding.fast_json import REQUIRED, decode_all, struct_type
from connectors.decoding.readings import Indices, Rejections
from connectors.errors import RecordError, list_names, shorten
from connectors.record_schema import GroupLayout

_MAX_KEYS = 100_000  # remembered; a flood of unknown names must not grow memory

Key = bytes | str | None


class Owner(NamedTuple):
    """An asset and the number of its group, or -1 and the reason why it has none."""

    asset: str
    group: int
    error: RecordError | None = None


class Owners(NamedTuple):
    """The owners of a batch's records. An asset keeps its number from batch to batch."""

    names: list[str]
    """by asset number; more than those that occur"""
    errors: dict[int, RecordError]
    """by asset number"""
    number: NDArray[np.int64]
    """asset number of each record"""
    group: NDArray[np.int64]
    """group of each record, negative when it has none"""

    def error(self, row: int) -> RecordError:
        return self.errors[int(self.number[row])]


class AssetDirectory:
    """Finds the group of an asset: exact ids first, then patterns in the order of the groups."""

    def __init__(self, groups: Sequence[GroupLayout]) -> None:
        names = [(name, number) for number, group in enumerate(groups) for name in group.assets]
        self._exact = dict(reversed(names))
        self._patterns = [(name, number) for name, number in names if set(name) & set("*?[")]
        self._expected = list_names(name for name, _ in names)
        self._reset()

    def owners(self, keys: Sequence[Key]) -> Owners:
        """A key is the bytes of a record's key, or the text of a field."""
        try:
            number = self._numbers_of(keys)
        except KeyError:
            self._add(keys)
            number = self._numbers_of(keys)
        return Owners(self._names, self._errors, number, self._groups[number])

    def _reset(self) -> None:
        """With new objects: callers that remember numbers recognise them by the list of names."""
        self._numbers: dict[Key, int] = {}
        self._names: list[str] = []
        self._errors: dict[int, RecordError] = {}
        self._groups = np.empty(0, dtype=np.int64)

    def _numbers_of(self, keys: Sequence[Key]) -> NDArray[np.int64]:
        return np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))

    def _add(self, keys: Sequence[Key]) -> None:
        if len(self._numbers) >= _MAX_KEYS:
            self._reset()
        groups = [self._add_key(key) for key in dict.fromkeys(keys) if key not in self._numbers]
        self._groups = np.concatenate([self._groups, np.array(groups, dtype=np.int64)])

    def _add_key(self, key: Key) -> int:
        """Returns the group of the new key."""
        owner, number = self._find_owner(key), len(self._names)
        self._numbers[key] = number
        self._names.append(owner.asset)
        if owner.error is not None:
            self._errors[number] = owner.error
        return owner.group

    def _find_owner(self, key: Key) -> Owner:
        try:
            asset = _asset_id(key)
            return Owner(asset, self._find_group(asset))
        except RecordError as error:
            return Owner("", -1, error)

    def _find_group(self, asset: str) -> int:
        if asset in self._exact:
            return self._exact[asset]
        for pattern, number in self._patterns:
            if fnmatchcase(asset, pattern):
                return number
        raise RecordError(
            "unknown_asset", f"asset {shorten(asset)} is in no group; the groups have {self._expected}", field=None
        )


def _asset_id(key: Key) -> str:
    if not key:
        detail = "the record has no key; the key must be the asset id, unless records.asset_field names a field"
        raise RecordError("missing_field", detail, field="key")
    if isinstance(key, str):
        return key
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise RecordError("wrong_type", f"the key {shorten(key)} is not UTF-8: {error.reason}", field="key") from error


class AssetField:
    """Reads the asset id out of JSON values, and nothing else of them."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._decode = Decoder(struct_type([(field, str, REQUIRED)])).decode

    def read(self, values: Sequence[bytes], rejections: Rejections) -> tuple[list[Key], Indices]:
        """The ids, and the indices of the values that have one."""
        rows, indices = decode_all(values, self._decode, self._explain, rejections)
        return [row.f0 for row in rows], indices

    def _explain(self, value: bytes) -> None:
        diagnose.get_string(diagnose.parse(value), self._field)
