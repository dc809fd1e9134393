"""Chunk KV on a server that several engines share: Valkey or Redis, through redis-py.

A value is a header, which says how long it is and has the SHA-256 of key and content, and safetensors. What does not
match is a miss. The server sees tensors and hashes, never text. Every value expires, and the least recently used one
is evicted first if the server has a memory limit and the policy `volatile-lru`.

An engine that will compute a chunk claims it with a lease, so that others may wait for it. A deleted key is remembered
for longer than any lease, in a sorted set that is never evicted: an engine that still computes it cannot write it
again. Leases and deletions use the server's clock only.
"""

import hashlib
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from store.errors import KVScopeError, KVServerUnavailable

TTL_S = 86_400  # of a value
DELETED_S = 3600  # that a deleted key cannot be written again
MAX_LEASE_MS = 600_000
TIMEOUT_S = 2.0  # to connect, and for each piece of data to arrive
DELETED = "kvscope:deleted"  # sorted set of keys by the server's time at which they may be written again
MAGIC = b"KVScope1"
HEADER = struct.Struct("<8sQ32s")  # magic, bytes that follow, SHA-256 of key and content
CLAIM = """
local left = {}
for i = 1, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then left[#left + 1] = -1  -- PRESENT
  elseif redis.call('SET', KEYS[i + 1], '', 'NX', 'PX', ARGV[1]) then left[#left + 1] = 0
  else left[#left + 1] = math.max(0, redis.call('PTTL', KEYS[i + 1])) end
end
return left
"""
PUT = """
redis.call('DEL', KEYS[3])
local deleted = redis.call('ZSCORE', KEYS[2], KEYS[1])
if deleted and tonumber(deleted) > tonumber(redis.call('TIME')[1]) then return 0 end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) and 1 or 0
"""


class KVServer:
    """A SharedBlobStore: the client of one server. Thread-safe.

    Parameters
    ----------
    url
        redis://[user@]host[:port][/database], or rediss:// for TLS, with redis-py's options after a '?'.
    password
        Empty for a server without one.

    Raises
    ------
    KVScopeError
        If the URL is invalid.
    """

    def __init__(self, url: str, password: str = "") -> None:
        try:
            self._client = Redis.from_url(
                url,
                password=password or None,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                socket_read_size=2**20,
            )
        except (TypeError, ValueError) as error:
            raise KVScopeError(f"The KV server's address is not valid ({error}).") from None
        options = self._client.connection_pool.connection_kwargs
        self.address = f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"  # without the password
        self._claim = self._client.register_script(CLAIM)
        self._put = self._client.register_script(PUT)

    def warning(self) -> str:
        with self._errors():
            memory = self._client.info("memory")
        if not memory.get("maxmemory"):
            return "The KV server has no memory limit. Start it with --maxmemory and --maxmemory-policy volatile-lru."
        policy = str(memory.get("maxmemory_policy"))
        if policy != "volatile-lru":
            return f"The KV server's eviction policy is {policy}. Start it with --maxmemory-policy volatile-lru."
        return ""

    def claim(self, keys: Sequence[str], lease_ms: int) -> list[int]:
        if not keys:
            return []
        pairs = [name for key in keys for name in (key, _lease(key))]
        with self._errors():
            return [int(left) for left in self._claim(pairs, [max(1, min(lease_ms, MAX_LEASE_MS))])]

    def read(self, keys: Sequence[str]) -> Generator[tuple[str, bytes]]:
        if not keys:
            return
        pool = self._client.connection_pool
        with self._errors():
            connection = pool.get_connection()
        num_left = len(keys)
        try:
            with self._errors():
                connection.send_packed_command(connection.pack_commands([("GET", key) for key in keys]))
            for key in keys:
                with self._errors():
                    value = connection.read_response(disable_decoding=True)
                num_left -= 1
                yield key, value or b""
        finally:
            if num_left:
                connection.disconnect()
            pool.release(connection)

    def decode(self, key: str, value: bytes) -> dict[str, Tensor] | None:
        if len(value) < HEADER.size:
            return None
        magic, length, digest = HEADER.unpack_from(value)
        data = memoryview(value)[HEADER.size :]
        if magic != MAGIC or length != len(data) or digest != _digest(key, data):
            return None
        try:
            return load(bytes(data))
        except SafetensorError:
            return None

    def put(self, key: str, tensors: dict[str, Tensor]) -> bool:
        with self._errors():
            if self._client.exists(key):
                return False
            return bool(self._put([key, DELETED, _lease(key)], [_encode(key, tensors), TTL_S]))

    def delete(self, keys: Sequence[str]) -> None:
        with self._errors():
            now, _ = self._client.time()
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.zadd(DELETED, dict.fromkeys(keys, now + DELETED_S))
                pipeline.delete(*keys, *map(_lease, keys))
                pipeline.zremrangebyscore(DELETED, 0, now)
                pipeline.execute()

    def discard(self, keys: Sequence[str]) -> None:
        with self._errors():
            self._client.delete(*keys)

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, OSError, ValueError) as error:  # ValueError: closed meanwhile
            reason = str(error) if isinstance(error, RedisError) else type(error).__name__
            raise KVServerUnavailable(f"The KV server {self.address} does not work ({reason}).") from error


def _lease(key: str) -> str:
    return f"{key}:lease"


def _encode(key: str, tensors: dict[str, Tensor]) -> bytes:
    data = save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
    return HEADER.pack(MAGIC, len(data), _digest(key, data)) + data


def _digest(key: str, data: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(data)
    return digest.digest()
