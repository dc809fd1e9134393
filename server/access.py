"""Who may use the server, read from the settings at the start, before slow libraries are imported.

Passwords are compared by argon2. API keys are too long to be guessed, so that their SHA-256 is enough.
"""

import hashlib
import hmac
import logging
import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from server.host_names import host_name, is_loopback
from store.errors import KVScopeError

KEYS_VARIABLE = "KVSCOPE_API_KEYS"
MIN_PASSWORD, MIN_KEY = 8, 16  # characters
MAX_PASSWORD_BYTES = 1024
_NO_CREDENTIALS = (
    "{} lets other machines use KVScope, and there is no password. "
    f"Give --password-file FILE or set {KEYS_VARIABLE}; --no-auth starts without either."
)
_CONTRADICTION = f"--no-auth contradicts --password-file and {KEYS_VARIABLE}: leave out one or the other."
_OPEN = "There is no password (--no-auth): everyone who can connect can read and delete documents and change settings"
_PLAIN = "Connections from other machines are not encrypted; SECURITY.md says how to add TLS"
log = logging.getLogger("kvscope")


class BadAccess(KVScopeError):
    """The settings do not say who may use the server, or the password or a key cannot be used."""


class Credentials:
    """The argon2 hash of the password, empty if there is none, and the API keys."""

    def __init__(self, password_hash: str, keys: list[str]) -> None:
        self._password_hash = password_hash
        self._keys = [_digest(key) for key in keys]

    def has_key(self, key: str) -> bool:
        digest = _digest(key)
        matches = [hmac.compare_digest(digest, each) for each in self._keys]  # always all, for a constant time
        return any(matches)

    def accepts(self, secret: str) -> bool:
        """Return whether a secret is the password or a key. Takes about 0.1 s and 64 MiB."""
        return self.has_key(secret) or bool(self._password_hash and _verify(self._password_hash, secret))


class AccessSettings(Protocol):
    """The settings about access; `backend.runtime.settings.Settings` has them and documents them."""

    host: str
    public_name: str
    password_file: Path | None
    auth: bool
    client_requests: int
    client_questions: int
    client_uploads: int
    client_upload_mib: int


@dataclass(frozen=True)
class Access:
    """Who may use the server, and how much: by default everyone on this machine, without limits.

    credentials  what clients have to give, or None
    limits       the settings with what each client may do, or None
    public_name  the name by which a reverse proxy is reached, or an empty string
    """

    credentials: Credentials | None = None
    limits: AccessSettings | None = None
    public_name: str = ""

    @property
    def is_open(self) -> bool:
        """Whether everyone on other machines is let in."""
        return self.limits is not None and self.credentials is None


LOCAL = Access()


def read_access(settings: AccessSettings, environment: MutableMapping[str, str] = os.environ) -> Access:
    """Return who may use the server. Raises BadAccess.

    The variable with the keys is removed from the environment, which child processes inherit.
    """
    keys = [key for key in map(str.strip, environment.pop(KEYS_VARIABLE, "").split(",")) if key]
    if any(len(key) < MIN_KEY for key in keys):
        raise BadAccess(f"A key in {KEYS_VARIABLE} has fewer than {MIN_KEY} characters.")
    if not all(map(str.isascii, keys)):  # HTTP headers cannot hold others
        raise BadAccess(f"A key in {KEYS_VARIABLE} has characters that are not ASCII.")
    has_credentials = bool(keys or settings.password_file)
    is_loopback_host = is_loopback(host_name(settings.host))
    if is_loopback_host and not settings.public_name and not has_credentials:
        return LOCAL
    if has_credentials and not settings.auth:
        raise BadAccess(_CONTRADICTION)
    if not has_credentials and settings.auth:
        raise BadAccess(_NO_CREDENTIALS.format("--public-name" if is_loopback_host else f"--host {settings.host}"))
    if not has_credentials:
        log.warning(_OPEN)
    elif not is_loopback_host:
        log.warning(_PLAIN)
    password_hash = _read_password_hash(settings.password_file) if settings.password_file else ""
    return Access(Credentials(password_hash, keys) if has_credentials else None, settings, settings.public_name)


def _read_password_hash(path: Path) -> str:
    """Return the argon2 hash of the password in a file's first line, which may be that hash. Raises BadAccess."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            line = file.readline(MAX_PASSWORD_BYTES).decode("utf-8-sig").rstrip("\r\n")
    except OSError as error:
        raise BadAccess(f"The password file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise BadAccess(f"The password file {path} is not text in UTF-8.") from error
    if os.name == "posix" and mode & 0o077:
        raise BadAccess(f"Other users can read the password file {path}. Run: chmod 600 {path}")
    if len(line) < MIN_PASSWORD:
        raise BadAccess(f"The first line of the password file {path} has fewer than {MIN_PASSWORD} characters.")
    from argon2 import PasswordHasher, exceptions, extract_parameters  # noqa: PLC0415  # 20 ms

    if not line.startswith("$argon2"):
        return PasswordHasher().hash(line)
    try:
        extract_parameters(line)
    except exceptions.InvalidHashError as error:
        raise BadAccess(f"The first line of the password file {path} is not a complete argon2 hash.") from error
    return line


def _verify(password_hash: str, password: str) -> bool:
    from argon2 import PasswordHasher, exceptions  # noqa: PLC0415  # 20 ms

    try:
        return PasswordHasher().verify(password_hash, password)
    except (exceptions.VerificationError, exceptions.InvalidHashError):
        return False


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
