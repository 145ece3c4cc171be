"""Who uses the page: a session cookie for browsers, which cannot send a token with a stream, or the bearer token."""

import asyncio
import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent.web.access import NOBODY, SERVICE, Access
from agent.web.users import Role, User

LIFETIME_S = 12 * 3600
MAX_SESSIONS = 1_000
_TRIES, _TRIES_WITHIN_S = 5, 60.0
_MAX_ADDRESSES = 10_000
_WRITE_HEADER = "x-anchormoe"


@dataclass(frozen=True, slots=True)
class _Session:
    """The hash of the token that opened it: a token that was revoked or rotated ends its sessions."""

    token_sha256: str
    expires_s: float


@dataclass(slots=True)
class Sessions:
    """Kept in memory: after a restart people log in again. `tls` says whether the cookie needs HTTPS."""

    access: Access
    tls: bool = False
    clock: Callable[[], float] = monotonic
    _open: dict[str, _Session] = field(default_factory=dict)
    _failures: dict[str, deque[float]] = field(default_factory=dict)

    def cookie(self, request: Request) -> str:
        """With the server's port: a browser gives a cookie to every port of a host, and two agents on one machine would
        log each other's users out."""
        port = (request.scope.get("server") or ("", 0))[1]
        return f"__Host-anchormoe-{port}" if self.tls else f"anchormoe-{port}"

    @property
    def login_needed(self) -> bool:
        return self.access.token() is not None or self.access.users is not None

    def find(self, request: Request) -> User | None:
        """By the header, else by the cookie; None for a caller that is not known."""
        if "authorization" in request.headers:
            return self.access.find(request)
        session = self._session(request)
        if session is not None and (user := self._user(session.token_sha256)) is not None:
            return user
        return None if self.login_needed else NOBODY

    def require(self, request: Request, role: Role) -> User:
        """Raises HTTPException: 401 for somebody who is not known, 403 where the role does not suffice."""
        if request.method not in ("GET", "HEAD"):
            check_write(request)
        user = self.find(request)
        if user is None:
            raise HTTPException(401, "log in first")
        if user.may(role):
            return user
        if user is NOBODY:
            raise HTTPException(403, "nobody may change anything here: no users are configured; see http.users")
        raise HTTPException(403, f"{user.name} has the role {user.role}; this needs {role}")

    def key(self, request: Request) -> str:
        """What streams are counted by: the session, else the address."""
        id = self._id(request)
        return id if id in self._open else f"@{_address(request)}"

    async def log_in(self, request: Request, token: str) -> tuple[User, str]:
        """The user and the id of the new session. Raises HTTPException: 401 wrong token, 429 too many wrong ones."""
        address, now_s = _address(request), self.clock()
        failures = self._recent_failures(address, now_s)
        if len(failures) >= _TRIES:
            wait_s = max(int(_TRIES_WITHIN_S - (now_s - failures[0])), 1)
            raise HTTPException(429, f"too many wrong tokens; try again in {wait_s} s", {"Retry-After": str(wait_s)})
        digest = hashlib.sha256(token.encode()).hexdigest()
        user = self._user(digest)
        if user is None:
            failures.append(now_s)
            await asyncio.sleep(0)
            raise HTTPException(401, "this token is not valid")
        self._failures.pop(address, None)
        self._forget_old(now_s)
        id = secrets.token_urlsafe(32)
        self._open[id] = _Session(digest, now_s + LIFETIME_S)
        return user, id

    def log_out(self, request: Request) -> None:
        self._open.pop(self._id(request), None)

    def set_cookie(self, request: Request, response: Response, id: str) -> None:
        """An empty id removes it."""
        age_s = LIFETIME_S if id else 0
        name = self.cookie(request)
        response.set_cookie(name, id, max_age=age_s, path="/", httponly=True, samesite="strict", secure=self.tls)

    def _id(self, request: Request) -> str:
        return request.cookies.get(self.cookie(request), "")

    def _session(self, request: Request) -> _Session | None:
        id = self._id(request)
        found = self._open.get(id)
        if found is not None and found.expires_s <= self.clock():
            del self._open[id]
            return None
        return found

    def _user(self, digest: str) -> User | None:
        """Of those who may enter now."""
        service = self.access.token()
        if service is not None and hmac.compare_digest(hashlib.sha256(service.encode()).hexdigest(), digest):
            return SERVICE
        found = None
        for user in () if self.access.users is None else self.access.users.users():
            if hmac.compare_digest(user.token_sha256, digest):
                found = user
        return found

    def _recent_failures(self, address: str, now_s: float) -> deque[float]:
        if address not in self._failures and len(self._failures) >= _MAX_ADDRESSES:
            self._failures.pop(next(iter(self._failures)))
        failures = self._failures.setdefault(address, deque())
        while failures and now_s - failures[0] >= _TRIES_WITHIN_S:
            failures.popleft()
        return failures

    def _forget_old(self, now_s: float) -> None:
        for id in [id for id, session in self._open.items() if session.expires_s <= now_s]:
            del self._open[id]
        while len(self._open) >= MAX_SESSIONS:
            del self._open[next(iter(self._open))]


def check_write(request: Request) -> None:
    """No form and no simple request can send this header, so a page of another site cannot. Raises HTTPException."""
    if request.headers.get(_WRITE_HEADER) != "1":
        raise HTTPException(403, "requests that change something need the header X-Anchormoe: 1")


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else "?"
