"""Refuses a file in which a column is missing or there twice, with what is probably meant. Pure."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from anchormoe.errors import DataError

SHOWN_NAMES = 20


def refuse_absent(path: Path, columns: Sequence[str], there: Sequence[str], *, hint: str = "") -> None:
    """`hint` says more where no similar name is there."""
    for name in columns:
        if name not in there:
            raise DataError(f"{path}: no column {name!r}; there are {_listed(there)}{_similar(name, there) or hint}")


def refuse_repeated(path: Path, columns: Sequence[str], there: Sequence[str]) -> None:
    for name in columns:
        if list(there).count(name) > 1:
            raise DataError(f"{path}: column {name!r} appears {list(there).count(name)} times in the header")


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names)} columns)" if len(names) > SHOWN_NAMES else ""
    return ", ".join(map(str, names[:SHOWN_NAMES])) + more


def _similar(name: str, there: Sequence[str]) -> str:
    """Names that differ only in what is hard to see: spaces, capitals, and how an umlaut is stored."""
    alike = [one for one in there if _plain(one) == _plain(name)]
    if not alike:
        return ""
    same_look = unicodedata.normalize("NFC", alike[0]) == unicodedata.normalize("NFC", name)
    if same_look:
        return f"; {alike[0]!r} looks the same but is stored differently: copy the name from the file"
    return f"; {alike[0]!r} differs only in spaces or capitals: make both the same"


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", str(name)).casefold().split())
