"""Schemas by id from a registry that speaks Confluent's HTTP API, or from a directory of exported ones.

A registry that is away delays: `load` tries again, then raises `ConnectorError`, and nothing was committed. An id that
the registry denies is asked for again with growing pauses, since the registry may have been restored or may lag behind;
only then it becomes an error of the records that name it, because no record may stop its partition. While ids are
being denied, further ones are asked for twice only. An id never changes its meaning, so what was fetched is kept; how
much is bounded.
"""

import asyncio
import base64
import random
import ssl
import time
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson

from connectors.decoding.registered import Schema, SchemaId
from connectors.errors import ConnectorError, RecordError, TransientError, shorten
from connectors.printable import printable
from connectors.secret_files import SecretFile, reveal_secret
from connectors.tls import client_context

_PORTS = {"http": 80, "https": 443}
_SHOWN_CHARACTERS = 200
_ENCODINGS = {"": False, "identity": False, "gzip": True, "x-gzip": True}
"""Whether there is something to unpack."""
_ACCEPT = (("accept", "application/json"), ("accept-encoding", "identity"))
_DENIALS = (404, 40401, 40402, 40403)
"""Not found; no such subject, version, schema."""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """Where the registry is and how often to try. The time-out is of a whole exchange; pauses double."""

    url: str = field(repr=False)
    username: str | None = None
    password: str | SecretFile | None = field(default=None, repr=False)
    ca_file: str | None = None
    timeout_s: float = 5.0
    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    max_schema_bytes: int = 1 << 20
    max_schemas: int = 1_000
    max_connections: int = 4
    unknown_for_s: float = 60.0


class SchemaCache:
    """At most `size` schemas and what was asked for last; the one that was needed longest ago goes first.

    An unknown id is forgotten after `unknown_for_s`: it may be registered later.
    """

    def __init__(self, size: int, unknown_for_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._unknown_for_s, self._clock = size, unknown_for_s, clock
        self._known: dict[SchemaId, tuple[Schema | RecordError, float]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def missing(self, ids: Collection[SchemaId]) -> list[SchemaId]:
        """Those to fetch. The others become the latest."""
        now_s, absent = self._clock(), list[SchemaId]()
        for id in sorted(ids, key=str):
            found = self._known.pop(id, None)
            if found is None or (isinstance(found[0], RecordError) and now_s - found[1] >= self._unknown_for_s):
                absent.append(id)
            else:
                self._known[id] = found
        return absent

    def add(self, id: SchemaId, found: Schema | RecordError) -> None:
        self._known[id] = found, self._clock()

    def shrink(self, needed: int) -> None:
        """`needed` is how many of the latest stay in any case."""
        for id in list(self._known)[: max(len(self._known) - max(self._size, needed), 0)]:
            del self._known[id]

    def get(self, id: SchemaId) -> Schema | RecordError:
        found = self._known.get(id)
        return RecordError("unknown_schema", f"schema {id} was not fetched") if found is None else found[0]


class SchemaRegistry:
    """Fetches schemas over HTTP. No redirects, no cookies, no proxies from the environment; `str` is host and port."""

    def __init__(
        self,
        address: RegistryAddress,
        *,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Raises `ConnectorError` for an address or certificates that cannot be used."""
        self._address, self._url = address, _parse_url(address.url)
        self._cache = SchemaCache(address.max_schemas, address.unknown_for_s, clock)
        self._clock = clock
        self._denied_s: float | None = None
        self._connections = asyncio.Semaphore(address.max_connections)
        self._transport = transport or httpx.AsyncHTTPTransport(verify=_tls(address), trust_env=False)

    def __str__(self) -> str:
        return f"schema registry {self._url.host}:{self._url.port or _PORTS[self._url.scheme]}"

    async def load(self, ids: Collection[SchemaId]) -> None:
        """Raises `ConnectorError` when the registry is away for longer than all tries take."""
        missing = self._cache.missing(ids)
        if not missing:
            return
        denied = await self._fetch_patiently(missing)
        for id in denied:
            self._denied_s = self._clock()
            self._cache.add(id, RecordError("unknown_schema", f"the {self} has no schema {id}"))
        self._cache.shrink(len(ids))

    async def _fetch_patiently(self, ids: Collection[SchemaId]) -> list[SchemaId]:
        """Those that the registry does not have, however often it is asked."""
        lately = self._denied_s is not None and self._clock() - self._denied_s < self._address.unknown_for_s
        pause_s = self._address.first_pause_s
        denied = await self._fetch_all(ids)
        for _ in range(1 if lately else self._address.attempts - 1):
            if not denied:
                break
            await asyncio.sleep(pause_s)
            denied = await self._fetch_all(denied)
            pause_s = min(2 * pause_s, self._address.longest_pause_s)
        return denied

    def get(self, id: SchemaId) -> Schema | RecordError:
        return self._cache.get(id)

    async def close(self) -> None:
        await self._transport.aclose()

    async def _fetch_all(self, ids: Collection[SchemaId]) -> list[SchemaId]:
        """Returns the ids that the registry does not have."""
        denied: list[SchemaId] = []

        async def fetch(id: SchemaId) -> None:
            async with self._connections:
                found = await self._fetch(id)
            if found is None:
                denied.append(id)
            else:
                self._cache.add(id, found)

        try:
            async with asyncio.TaskGroup() as group:
                for id in ids:
                    group.create_task(fetch(id))
        except* ConnectorError as errors:
            raise ConnectorError(str(_first(errors))) from errors
        return sorted(denied, key=str)

    async def _fetch(self, id: SchemaId) -> Schema | RecordError | None:
        path = f"schemas/ids/{id}" if isinstance(id, int) else f"schemas/guids/{id}"
        found = await self._ask(path, f"schema {id}")
        if found is None or isinstance(found, RecordError):
            return found
        schema = read_schema(id, found)
        if isinstance(schema, RecordError) or not isinstance(id, int):
            return schema
        return replace(schema, subject=await self._subject(id))

    async def _subject(self, id: int) -> str:
        """For messages only, so a registry that does not tell is no reason to wait or to fail."""
        try:
            found = await self._try(f"schemas/ids/{id}/versions", f"the versions of schema {id}")
        except TransientError:
            return ""
        first = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
        subject, version = first.get("subject"), first.get("version")
        named = isinstance(subject, str) and isinstance(version, int)
        return f"{printable(str(subject)[:_SHOWN_CHARACTERS])} version {version}" if named else ""

    async def latest(self, subject: str) -> Schema | RecordError | None:
        """The newest of a subject; None where the registry has none. Raises `ConnectorError`."""
        path = f"subjects/{quote(subject, safe='')}/versions/latest"
        found = await self._ask(path, f"subject {subject}")
        if found is None or isinstance(found, RecordError):
            return found
        id, version = found.get("id"), found.get("version")
        schema = read_schema(id if isinstance(id, int) else 0, found)
        return schema if isinstance(schema, RecordError) else replace(schema, subject=f"{subject} version {version}")

    async def _ask(self, path: str, what: str) -> dict[str, Any] | RecordError | None:
        """Tries again while the registry is away. None where it has none. Raises `ConnectorError`."""
        pause_s = self._address.first_pause_s
        for left in reversed(range(self._address.attempts)):
            try:
                found = await self._try(path, what)
                if isinstance(found, list):
                    raise TransientError(f"the {self} answered with something that is no JSON object")
                return found
            except TransientError as error:
                if not left:
                    raise ConnectorError(f"{error} ({what}, {self._address.attempts} tries)") from error
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, self._address.longest_pause_s)
        raise AssertionError("the last try returns or raises")

    async def _try(self, path: str, what: str) -> dict[str, Any] | list[Any] | RecordError | None:
        base = self._url.raw_path.decode().rstrip("/")
        url = self._url.copy_with(raw_path=f"{base}/{path}".encode())
        request = httpx.Request("GET", url, headers=[*_ACCEPT, *self._login()])
        try:
            async with asyncio.timeout(self._address.timeout_s):
                response = await self._transport.handle_async_request(request)
                try:
                    return await self._read(what, response)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise TransientError(f"the {self} did not answer within {self._address.timeout_s:.3g} s") from error
        except (httpx.HTTPError, OSError) as error:
            shown = printable(str(error)[:_SHOWN_CHARACTERS]) or type(error).__name__
            raise TransientError(f"the {self}: {shown}") from error

    async def _read(self, what: str, response: httpx.Response) -> dict[str, Any] | list[Any] | RecordError | None:
        body = await _read_body(response, self._address.max_schema_bytes)
        if body is None:
            detail = f"{what} of the {self} is larger than {self._address.max_schema_bytes} bytes"
            return RecordError("unknown_schema", detail)
        document = _as_json(body)
        if response.status_code == 404 and isinstance(document, dict) and document.get("error_code") in _DENIALS:
            return None
        if response.status_code != 200:
            hint = "; redirects are not followed" if 300 <= response.status_code < 400 else ""
            raise TransientError(f"the {self} answered {response.status_code}{hint}")
        if not isinstance(document, dict | list):
            raise TransientError(f"the {self} answered with something that is no JSON object")
        return document

    def _login(self) -> list[tuple[str, str]]:
        if self._address.username is None:
            return []
        pair = f"{self._address.username}:{reveal_secret(self._address.password) or ''}"
        return [("authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]


class SchemaDirectory:
    """Schemas in files `ID.json`, each as the registry would answer: a replay needs no registry."""

    def __init__(self, directory: Path, max_bytes: int = 1 << 20) -> None:
        self._directory, self._max_bytes = directory, max_bytes
        self._known: dict[SchemaId, Schema | RecordError] = {}

    async def load(self, ids: Collection[SchemaId]) -> None:
        """Raises `ConnectorError` where the directory cannot be read."""
        if not self._directory.is_dir():
            raise ConnectorError(f"there is no directory of schemas {self._directory}")
        self._known = {id: self._known.get(id) or self._read(id) for id in ids}

    def get(self, id: SchemaId) -> Schema | RecordError:
        return self._known.get(id) or RecordError("unknown_schema", f"schema {id} was not read")

    async def close(self) -> None:
        """Nothing is open."""

    def _read(self, id: SchemaId) -> Schema | RecordError:
        path = self._directory / f"{id}.json"
        try:
            with path.open("rb") as file:
                text = file.read(self._max_bytes + 1)
        except FileNotFoundError:
            return RecordError("unknown_schema", f"the directory of schemas has no {path.name}")
        except OSError as error:
            raise ConnectorError(f"cannot read {path}: {error.strerror}") from error
        document = _as_object(text) if len(text) <= self._max_bytes else None
        return (
            RecordError("unknown_schema", f"{path.name} is no schema")
            if document is None
            else read_schema(id, document)
        )


def read_schema(id: SchemaId, document: dict[str, Any]) -> Schema | RecordError:
    """The answer of a registry, or an exported file; without `schemaType` it is Avro."""
    text, kind, named = document.get("schema"), document.get("schemaType", "AVRO"), document.get("named", "")
    if not isinstance(text, str) or not isinstance(kind, str):
        return RecordError("unknown_schema", f"schema {id} came without a text: {shorten(document)}")
    if document.get("references"):
        return RecordError("schema_mismatch", f"schema {id} refers to others; references are not followed")
    return Schema(id, kind, text, named if isinstance(named, str) else "")


def schema_document(schema: Schema) -> dict[str, str]:
    """What `SchemaDirectory` reads: the registry's own answer, with subject and version beside it."""
    return {"schema": schema.text, "schemaType": schema.kind, "named": schema.subject}


def _as_json(body: bytes) -> Any:
    """None for what is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _as_object(body: bytes) -> dict[str, Any] | None:
    document = _as_json(body)
    return document if isinstance(document, dict) else None


async def _read_body(response: httpx.Response, limit: int) -> bytes | None:
    """None where it is longer: it is neither read nor unpacked to its end. Raises `httpx.DecodingError`.

    Packed twice, five hundred bytes are two hundred megabytes, so gzip is taken once and nothing else.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise httpx.DecodingError(f"an answer in the content encoding {encoding}, which was not asked for")
    unpack = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS) if _ENCODINGS[encoding] else None
    parts, size = [], 0
    async for raw in response.aiter_raw():
        try:
            part = raw if unpack is None else unpack.decompress(raw, limit + 1 - size)
        except zlib.error as error:
            raise httpx.DecodingError(f"an answer that is no gzip: {error}") from error
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    if unpack is not None and not unpack.eof:
        raise httpx.DecodingError("an answer whose gzip is cut off")
    return b"".join(parts)


def _first(errors: BaseExceptionGroup[ConnectorError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _tls(address: RegistryAddress) -> ssl.SSLContext:
    try:
        return client_context(ca_file=address.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConnectorError(f"cannot use the certificates for the schema registry: {error}") from error


def _parse_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise ConnectorError(f"the schema registry's URL is not an address: {error}") from error
    if url.scheme not in _PORTS or not url.host or not 0 < (url.port or 1) < 1 << 16:
        raise ConnectorError("the schema registry's URL is not an address: expected http:// or https:// and a host")
    return url
