"""The users file: who may use the HTTP servers, with hashed tokens and roles; it is read again when it changes."""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import structlog
import yaml

from agent.errors import SettingsError

log = structlog.get_logger()

Role = Literal["view", "operate", "engineer"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each role may do everything that the ones before it may do."""
TOKEN_PREFIX = "amt_"  # noqa: S105  # lets secret scanners find tokens; it is no token
RESERVED_NAMES = frozenset({"system", "service"})
"""`system` is the alarm worker itself in the audit, `service` the holder of `http.token`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MAX_BYTES = 1 << 20
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH
_HEAD = "# Written by `anchormoe-agent users`. Tokens are not in it, only their SHA-256.\n"


@dataclass(frozen=True, slots=True)
class User:
    """`token_sha256`: a token has 256 random bits, so that a slow hash would protect nothing and cost the server."""

    name: str
    role: Role
    token_sha256: str

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def find_user(users: Sequence[User], token: str) -> User | None:
    """Compares with every user, so that the time does not tell which of them it was, or whether it was one."""
    digest, found = hash_token(token), None
    for user in users:
        if hmac.compare_digest(user.token_sha256, digest):
            found = user
    return found


def parse_users(raw: bytes, where: str) -> tuple[User, ...]:
    """Raises SettingsError, which names the entry. A file without users is valid: nobody may enter."""
    try:
        document = yaml.safe_load(raw)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:  # a date that does not exist
        raise SettingsError(f"{where}: not YAML: {type(error).__name__}") from error
    entries = document.get("users") if isinstance(document, dict) else document
    if not isinstance(entries, list | None) or (isinstance(document, dict) and document.keys() != {"users"}):
        raise SettingsError(f"{where}: expected a list `users`; `anchormoe-agent users add` writes one")
    users = tuple(_parse_user(entry, f"{where}: users[{at}]") for at, entry in enumerate(entries or ()))
    for field in ("name", "token_sha256"):
        if len({getattr(user, field) for user in users}) < len(users):
            raise SettingsError(f"{where}: two users have the same {field}; remove one")
    return users


def check_name(name: str) -> str:
    """Raises SettingsError."""
    if _NAME.fullmatch(name) is None or name.lower() in RESERVED_NAMES:
        allowed = "letters, digits and . _ @ - inside, but not system or service"
        raise SettingsError(f"{name!r} is not a user name: {allowed}")
    return name


class UsersFile:
    """Finds users by token. A file that is missing, unreadable or open to the writes of others lets nobody in.

    So a user who was removed stays removed, whatever else is wrong with the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: object = None
        self._users: tuple[User, ...] = ()

    def find(self, token: str) -> User | None:
        return find_user(self.users(), token)

    def users(self) -> tuple[User, ...]:
        """Reads the file again if it was changed or replaced."""
        seen = _fingerprint(self.path)
        if self._seen != seen:
            self._seen, self._users = seen, ()
            self._users = self._read()
        return self._users

    def _read(self) -> tuple[User, ...]:
        try:
            users = read_users(self.path)
        except SettingsError as error:
            log.error("nobody can log in", file=str(self.path), reason=str(error))
            return ()
        log.info("users read", file=str(self.path), users=len(users))
        if is_readable_by_others(self.path):
            log.warning("others may read the users file; give it mode 0600", file=str(self.path))
        return users


def read_users(path: Path) -> tuple[User, ...]:
    """Raises SettingsError, also for a file that others may write: they could add themselves."""
    try:
        with path.open("rb") as file:
            mode, owner = os.fstat(file.fileno()).st_mode, os.fstat(file.fileno()).st_uid
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; `anchormoe-agent users add` writes it") from error
    if mode & _WRITABLE_BY_OTHERS or owner not in (0, os.geteuid()):
        raise SettingsError(f"{path}: others may write to it; make it yours, with mode 0600")
    if len(raw) > _MAX_BYTES:
        raise SettingsError(f"{path}: larger than {_MAX_BYTES} bytes")
    return parse_users(raw, str(path))


def is_readable_by_others(path: Path) -> bool:
    return bool(path.exists() and path.stat().st_mode & _READABLE_BY_OTHERS)


def add_user(path: Path, name: str, role: Role) -> str:
    """The token, which is stored nowhere. Raises SettingsError if there is such a user."""
    check_name(name)
    with _changing(path) as users:
        if any(user.name == name for user in users):
            raise SettingsError(f"{path}: there is a user {name} already; `users rotate` gives a new token")
        token = new_token()
        users.append(User(name, role, hash_token(token)))
    return token


def rotate_token(path: Path, name: str) -> str:
    """A new token for a user; the old one is no longer valid. Raises SettingsError."""
    with _changing(path) as users:
        at = _index(path, users, name)
        token = new_token()
        users[at] = User(name, users[at].role, hash_token(token))
    return token


def remove_user(path: Path, name: str) -> None:
    """Raises SettingsError if there is no such user."""
    with _changing(path) as users:
        del users[_index(path, users, name)]


@contextmanager
def _changing(path: Path) -> Iterator[list[User]]:
    """The users to change, one process at a time; a missing file has none. The new file replaces the old one whole."""
    if not path.parent.is_dir():
        raise SettingsError(f"{path}: there is no directory {path.parent}")
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        users = list(read_users(path)) if path.exists() else []
        yield users
        _write(path, users)
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(path: Path, users: Sequence[User]) -> None:
    entries = [{"name": user.name, "role": user.role, "token_sha256": user.token_sha256} for user in users]
    text = _HEAD + yaml.safe_dump({"users": entries}, sort_keys=False)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _index(path: Path, users: Sequence[User], name: str) -> int:
    for at, user in enumerate(users):
        if user.name == name:
            return at
    raise SettingsError(f"{path}: there is no user {name!r}; `users list` shows them")


def _parse_user(entry: Any, where: str) -> User:
    if not isinstance(entry, dict) or entry.keys() != {"name", "role", "token_sha256"}:
        raise SettingsError(f"{where}: expected name, role and token_sha256")
    name, role, digest = entry["name"], entry["role"], entry["token_sha256"]
    if not isinstance(name, str):
        raise SettingsError(f"{where}: the name must be a string")
    try:
        check_name(name)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error
    if role not in ROLES:
        raise SettingsError(f"{where}: role must be one of {', '.join(ROLES)}")
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise SettingsError(f"{where}: token_sha256 must be 64 hexadecimal digits")
    return User(name, role, digest)


def _fingerprint(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev, found.st_mode, found.st_uid
