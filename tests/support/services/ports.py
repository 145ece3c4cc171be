"""Free TCP ports that stay free while a server is down."""

import random
import socket

# Below the range from which Linux takes the local ends of connections: a client that connects
# while a killed server is away cannot be given that server's port.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 200
_handed_out: set[int] = set()


def free_port() -> int:
    for port in random.SystemRandom().sample(range(_FIRST, _LAST), _TRIES):
        if port not in _handed_out and _is_free(port):
            _handed_out.add(port)
            return port
    raise OSError(f"no free port among {_TRIES} tried between {_FIRST} and {_LAST}")


def free_port_pair(distance: int) -> int:
    """The lower of two free ports, `distance` apart."""
    for port in random.SystemRandom().sample(range(_FIRST, _LAST - distance), _TRIES):
        pair = {port, port + distance}
        if not pair & _handed_out and all(map(_is_free, pair)):
            _handed_out.update(pair)
            return port
    raise OSError(f"no two free ports {distance} apart among {_TRIES} tried between {_FIRST} and {_LAST}")


def is_open(address: str) -> bool:
    """Whether something accepts connections at the first of `host:port[,host:port…]`."""
    host, port = address.split(",")[0].rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
