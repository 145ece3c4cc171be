"""Finds the asset and the group of each record, by its key or by a field. Pure."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from msgspec.json import Decoder
from numpy.typing import NDArray

from connectors.decoding import diagnose
from connectors.decoding.fast_json import REQUIRED, decode_all, struct_type
from connectors.decoding.readings import Indices, Rejections
from connectors.errors import RecordError, list_names, shorten
from connectors.record_schema import ASSET_ID, ASSET_ID_WORDS, GroupLayout

MAX_REMEMBERED_BYTES = 32 << 20
"""Of remembered keys; a flood of unknown names must not grow memory."""
MAX_KEY_BYTES = 256
"""A longer key is never remembered; asset ids are shorter."""
_BYTES_PER_KEY = 256
"""What Python needs for a remembered key beside its characters: two objects, their entries in a dict and a list."""
_NOT_REMEMBERED = 0
"""The asset number of every key that is too long to be remembered."""

is_asset_id = re.compile(ASSET_ID).fullmatch

Key = bytes | str | None


def read_each(
    values: Sequence[bytes], rejections: Rejections, read: Callable[[bytes], Key]
) -> tuple[list[Key], Indices]:
    """The ids that `read` finds, and the indices of the values that have one; the others are rejected."""
    assets: list[Key] = []
    rows = []
    for row, value in enumerate(values):
        try:
            assets.append(read(value))
            rows.append(row)
        except RecordError as error:
            rejections[row] = error
    return assets, np.array(rows, dtype=np.int64)


class Owners(NamedTuple):
    """The owners of a batch's records. An asset keeps its number from batch to batch."""

    names: list[str]
    """by asset number; more than those that occur"""
    number: NDArray[np.int64]
    """asset number of each record"""
    group: NDArray[np.int64]
    """group of each record, negative when it has none"""
    keys: Sequence[Key]
    explain: Callable[[Key], RecordError]
    is_foreign: Callable[[Key], bool]

    def error(self, row: int) -> RecordError:
        """Why the record has no group."""
        return self.explain(self.keys[row])

    def may_ignore(self, row: int, error: RecordError) -> bool:
        """Whether the record is none of this plant's, so that `unknown_asset: ignore` is meant for it."""
        return error.reason in ("unknown_asset", "bad_asset") and self.is_foreign(self.keys[row])


class AssetDirectory:
    """Finds the group of an asset: exact ids first, then patterns in the order of the groups."""

    def __init__(self, groups: Sequence[GroupLayout], *, max_bytes: int | None = None) -> None:
        names = [(name, number) for number, group in enumerate(groups) for name in group.assets]
        self._exact = dict(reversed(names))
        self._patterns = [(name, number) for name, number in names if set(name) & set("*?[")]
        self._expected = list_names(name for name, _ in names)
        self._max_bytes = MAX_REMEMBERED_BYTES if max_bytes is None else max_bytes
        self._reset()

    @property
    def remembered_bytes(self) -> int:
        """At most `max_bytes` and what one batch added."""
        return self._bytes

    def owners(self, keys: Sequence[Key]) -> Owners:
        """A key is the bytes of a record's key, or the text of a field."""
        try:
            number = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(keys))
        except KeyError:
            self._add(keys)
            found = (self._numbers.get(key, _NOT_REMEMBERED) for key in keys)
            number = np.fromiter(found, np.int64, len(keys))
        return Owners(self._names, number, self._groups[number], keys, self._explain, self._is_foreign)

    def _reset(self) -> None:
        """With new objects: callers that remember numbers recognise them by the list of names."""
        self._numbers: dict[Key, int] = {}
        self._names: list[str] = [""]
        self._groups = np.array([-1], dtype=np.int64)
        self._bytes = 0

    def _add(self, keys: Sequence[Key]) -> None:
        """A batch is added as a whole, so that its assets have different numbers."""
        new = [key for key in dict.fromkeys(keys) if key not in self._numbers and len(key or b"") <= MAX_KEY_BYTES]
        if self._bytes + sum(map(_size, new)) > self._max_bytes:
            self._reset()
            new = [key for key in dict.fromkeys(keys) if len(key or b"") <= MAX_KEY_BYTES]
        groups = [self._add_key(key) for key in new]
        self._groups = np.concatenate([self._groups, np.array(groups, dtype=np.int64)])

    def _add_key(self, key: Key) -> int:
        """Returns the group of the new key."""
        self._numbers[key] = len(self._names)
        self._bytes += _size(key)
        try:
            asset = _asset_id(key)
            group = self._find_group(asset)
        except RecordError:
            asset, group = "", -1
        self._names.append(asset)
        return group

    def _find_group(self, asset: str) -> int:
        if asset in self._exact:
            return self._exact[asset]
        for pattern, number in self._patterns:
            if fnmatchcase(asset, pattern):
                return number
        detail = f"asset {shorten(asset)} is in no group; the groups have {self._expected}"
        raise RecordError("unknown_asset", detail, field=None)

    def _explain(self, key: Key) -> RecordError:
        try:
            self._find_group(_asset_id(key))
        except RecordError as error:
            return error
        raise AssertionError(f"{shorten(key)} has a group")  # only asked for a record without one

    def _is_foreign(self, key: Key) -> bool:
        """Whether no group would take it, valid or not; of a long key the beginning decides."""
        start = (key or b"")[:MAX_KEY_BYTES]
        text = start.decode(errors="replace") if isinstance(start, bytes) else start
        return text not in self._exact and not any(fnmatchcase(text, pattern) for pattern, _ in self._patterns)


def _asset_id(key: Key) -> str:
    """Raises RecordError. What is not an id never goes further: ids reach terminals, logs, keys and file names."""
    if not key:
        detail = "the record has no key; the key must be the asset id, unless records.asset_field names a field"
        raise RecordError("missing_field", detail, field="key")
    if len(key) > MAX_KEY_BYTES:
        raise RecordError("bad_asset", f"an asset id of {len(key)} bytes; use {ASSET_ID_WORDS}")
    text = _key_text(key)
    if is_asset_id(text) is None:
        raise RecordError("bad_asset", f"{shorten(text)} is not an asset id; use {ASSET_ID_WORDS}")
    return text


def _key_text(key: bytes | str) -> str:
    if isinstance(key, str):
        return key
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise RecordError("wrong_type", f"the key {shorten(key)} is not UTF-8: {error.reason}", field="key") from error


def _size(key: Key) -> int:
    return _BYTES_PER_KEY + 2 * len(key or b"")


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
