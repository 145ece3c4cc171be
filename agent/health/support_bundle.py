"""What goes into a support bundle, and what does not: no secret, no name of an asset, no value of a sensor. Pure.

Names and values cannot be recognised for sure, so texts are let through by what is known to be harmless, not the
other way round.
"""

import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from agent.logs import text_redaction

LEFT_OUT: Final = "<left out>"
_ASSET_KEYS = {"asset", "assets", "children", "id", "username", "paths", "directory"}
_SCALARS = {"string", "integer", "number", "boolean"}
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:.*@)?(?P<host>[^/?#@]*)(?P<rest>[^@]*)", re.DOTALL)
_HARMLESS_PATH = re.compile(r"/[\w-]{0,64}")  # the number of a database, the name of a sentinels' master
_BEFORE_AT = re.compile(r"\S+(?=@)")
_REFERENCES = {"env": re.compile(r"[A-Z][A-Z0-9_]*"), "file": re.compile(r"[^\s@]*/[^\s@]*")}
_LOG_FIELDS = {"timestamp", "level", "logger", "event_code", "partition", "offset", "epoch", "group", "exit_code"}
_ALARM_NAMES = re.compile(r'(?<=alarm=")[^"]*(?=")')
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>[\w<>]+)', re.MULTILINE)
_ERROR = re.compile(r"^(?P<name>[A-Za-z_][\w.]*(?:Error|Exception|Tripped|Fenced|Lost|Exit|Interrupt))\b", re.MULTILINE)
_LAG = re.compile(r'^anchormoe_lag_records\{partition="(\d+)",topic="([^"]+)"\} (\S+)', re.MULTILINE)
_PLAIN_EVENT = re.compile(r"[a-z][a-z ,;:'()-]{0,119}")


def keys_with_scalars(schema: Any, definitions: Mapping[str, Any] | None = None) -> frozenset[str]:
    """The settings that may be a text, a number or a list of them; the others are sections or references to secrets."""
    known = schema.get("$defs", {}) if definitions is None and isinstance(schema, Mapping) else definitions or {}
    if isinstance(schema, list):
        return frozenset().union(*(keys_with_scalars(each, known) for each in schema))
    if not isinstance(schema, Mapping):
        return frozenset()
    own = {name for name, each in schema.get("properties", {}).items() if _may_be_scalar(each, known)}
    return frozenset(own).union(*(keys_with_scalars(each, known) for each in schema.values()))


def _may_be_scalar(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name:
        return _may_be_scalar(definitions[name], definitions)
    forms = [form for name in ("anyOf", "oneOf", "prefixItems") for form in schema.get(name, ())]
    forms += [schema["items"]] if "items" in schema else []
    return (
        schema.get("type") in _SCALARS
        or not schema.keys().isdisjoint(("const", "enum"))
        or any(_may_be_scalar(each, definitions) for each in forms)
    )


def harmless_settings(value: Any, known: Collection[str], key: str = "") -> Any:
    """The configuration without secrets, names of assets and users, and files of data. `known`: keys_with_scalars.

    It is the raw file: one that the agent refuses, for example because a password stands in it, must come out
    harmless too. So a value is kept only where a valid file may have one.
    """
    if key in _ASSET_KEYS:
        return f"{LEFT_OUT}: {len(value)}" if isinstance(value, list) else LEFT_OUT
    if isinstance(value, Mapping):
        if len(value) == 1 and (reference := _reference(*next(iter(value.items())))):
            return reference
        return {str(name): harmless_settings(each, known, str(name)) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [harmless_settings(each, known, key) for each in value]
    if value is None:
        return None
    if key not in known or key in _REFERENCES or not isinstance(value, str | int | float):
        return LEFT_OUT
    return _harmless_text(value) if isinstance(value, str) else value


def _reference(kind: Any, name: Any) -> dict[str, str] | None:
    """{env: NAME} or {file: PATH}; a name that does not look like one may be the secret itself."""
    if kind not in _REFERENCES:
        return None
    fits = isinstance(name, str) and _REFERENCES[kind].fullmatch(name)
    return {kind: name if fits else LEFT_OUT}


def _harmless_text(text: str) -> str:
    """Addresses without logins, and without paths and queries: receivers have their tokens there."""
    address = _ADDRESS.fullmatch(text)
    if address is None:
        return LEFT_OUT if "://" in text else _BEFORE_AT.sub(LEFT_OUT, text)
    rest = address["rest"]
    kept = rest if not rest or (_HARMLESS_PATH.fullmatch(rest) and not address["scheme"].startswith("http")) else None
    return f"{address['scheme']}://{address['host']}{LEFT_OUT if kept is None else kept}"


def harmless_metrics(text: str) -> str:
    """Metrics have no label per asset, but for the most frequent alarms."""
    return _ALARM_NAMES.sub(LEFT_OUT, text)


def harmless_log_lines(lines: Iterable[str]) -> list[str]:
    """Log lines in JSON with their constant words, places in the code and counts; other lines are only counted."""
    kept, other = [], 0
    for line in lines:
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            other += 1
            continue
        kept.append(json.dumps(_harmless_line(fields), ensure_ascii=False))
    if other:
        kept.append(json.dumps({"left_out": other, "why": "not JSON; set logging.format to json"}))
    return kept


def _harmless_line(fields: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in fields.items() if name in _LOG_FIELDS and _is_short(value)}
    figures = {
        name: value
        for name, value in fields.items()
        if name.endswith(("_s", "_ms", "_bytes")) and isinstance(value, int | float)
    }
    event = fields.get("event")
    ours = "logger" not in fields and isinstance(event, str) and _PLAIN_EVENT.fullmatch(event)
    line = {**known, **figures, "event": event if ours else LEFT_OUT}
    trace = fields.get("exception")
    return {**line, "exception": places_in_code(trace)} if isinstance(trace, str) else line


def _is_short(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 100)


def places_in_code(trace: str) -> list[str]:
    """Where it was raised and as what; the message of an exception may have values of a record."""
    frames = [f"{found['file']}:{found['line']} {found['name']}" for found in _FRAME.finditer(trace)]
    return [*frames, *(found["name"] for found in _ERROR.finditer(trace))]


def lag_of(metrics: str) -> dict[str, float]:
    """By topic and partition, from the text of /metrics."""
    found = _LAG.findall(metrics)
    return {f"{topic}[{partition}]": float(lag) for partition, topic, lag in found}


def behind_commits(topic: str, committed: Mapping[int, int], ends: Mapping[int, int]) -> dict[str, dict[str, int]]:
    """By topic and partition: where a start would go on, and how many records come after that."""
    return {
        f"{topic}[{partition}]": {"committed": offset, "end": ends[partition], "behind": ends[partition] - offset}
        for partition, offset in sorted(committed.items())
    }


def store_figures(assets: Iterable[tuple[str, str, str | None]], torn: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """How much is stored: (partition, group, state) of each asset, (partition, group) of what cannot be read."""
    counts: Counter[tuple[str, str, str]] = Counter((at, group, state or "none") for at, group, state in assets)
    return {
        "assets": [
            {"partition": at, "group": group, "state": state, "count": count}
            for (at, group, state), count in sorted(counts.items())
        ],
        "torn_checkpoints": [{"partition": at, "group": group} for at, group in sorted(torn)],
    }


def write_archive(files: Mapping[str, str], secrets: Iterable[str], names: Iterable[str]) -> bytes:
    """A tar.gz of text files. Secrets and known names of assets are looked for once more, in every file."""
    redact = text_redaction(frozenset(secrets) | {name for name in names if name})
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, text in sorted(files.items()):
            content = redact(text).encode()
            entry = tarfile.TarInfo(f"support-bundle/{name}")
            entry.size, entry.mode = len(content), 0o640
            archive.addfile(entry, io.BytesIO(content))
    return raw.getvalue()
