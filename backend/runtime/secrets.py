"""Keys and passwords of other servers, from environment variables."""

import os
from collections.abc import MutableMapping
from dataclasses import dataclass, field

from backend.interface.errors import BadSettings

ANSWER_SERVER_KEY = "KVSCOPE_ANSWER_SERVER_KEY"
KV_SERVER_PASSWORD = "KVSCOPE_KV_SERVER_PASSWORD"
LIBRARY_KEY = "KVSCOPE_LIBRARY_KEY"


@dataclass(frozen=True)
class Secrets:
    """What the backend needs to connect to other servers; never logged or saved."""

    answer_server_key: str = field(default="", repr=False)
    kv_server_password: str = field(default="", repr=False)
    library_key: str = field(default="", repr=False)


def take_secret(name: str, environment: MutableMapping[str, str] = os.environ) -> str:
    """Remove a key or password from the environment, which child processes inherit, and return it.

    Raises BadSettings if it cannot be sent.
    """
    secret = environment.pop(name, "").strip()
    if not (secret.isascii() and secret.isprintable()):
        raise BadSettings(f"{name} has characters that cannot be sent.")
    return secret


def take_secrets() -> Secrets:
    """Take all secrets of the backend from the environment. Raises BadSettings."""
    return Secrets(take_secret(ANSWER_SERVER_KEY), take_secret(KV_SERVER_PASSWORD), take_secret(LIBRARY_KEY))
