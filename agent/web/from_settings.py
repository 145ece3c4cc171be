"""Access and server parameters from the settings."""

from agent.settings import Http
from agent.web.access import Access
from agent.web.server import Serving
from agent.web.users import UsersFile

_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, not bound to


def access_of(http: Http) -> Access:
    """The token is asked for at every request, so that one in a file can be rotated."""
    token = (lambda: None) if http.token is None else http.token.get_secret_value
    return Access(token, None if http.users is None else UsersFile(http.users))


def serving_of(http: Http) -> Serving:
    own = () if http.host in _EVERY_ADDRESS else (http.host,)
    return Serving(frozenset((*http.allowed_hosts, *own)), http.cert_file, http.key_file)
