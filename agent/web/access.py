"""Who asks, and whether they may: from the bearer token alone, never from what the caller says about themselves."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent.web.users import Role, User, UsersFile

_LONGEST_TOKEN = 1024
_BEARER = {"WWW-Authenticate": "Bearer"}
SERVICE = User("service", "view", "")
"""Whoever has `http.token`: Prometheus, a load balancer. It may read; it is nobody in particular."""
NOBODY = User("", "view", "")
"""A reader on the loopback interface where neither a token nor users are configured."""


@dataclass(frozen=True, slots=True)
class Access:
    """`token` gives the present service token. Without one and without users everybody may read, nobody may change."""

    token: Callable[[], str | None] = lambda: None
    users: UsersFile | None = None

    def find(self, request: Request) -> User | None:
        """None for a caller that is not known."""
        expected = self.token()
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        given = given.strip()
        if scheme.lower() == "bearer" and 0 < len(given) <= _LONGEST_TOKEN:
            if expected is not None and hmac.compare_digest(given.encode(), expected.encode()):
                return SERVICE
            if self.users is not None:
                return self.users.find(given)
        return NOBODY if expected is None and self.users is None else None

    def require(self, request: Request, role: Role) -> User:
        """Raises HTTPException: 401 without a valid token, 403 where the role does not suffice."""
        user = self.find(request)
        if user is None:
            raise HTTPException(401, "a bearer token is required", _BEARER)
        if user.may(role):
            return user
        if user is NOBODY:
            raise HTTPException(401, "no users are configured; set http.users, see `anchormoe-agent users`", _BEARER)
        raise HTTPException(403, f"{user.name} has the role {user.role}; this needs {role}")
