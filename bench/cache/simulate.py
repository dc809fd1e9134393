"""Simulate eviction policies at the paper's scale: the real knowledge tree without KV, and the measured cost model.

Questions are served one after the other; each takes T(cached, computed). There is one memory tier.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.cache.workload import RequestStream
from engine.cache.cost_model import CostModel
from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.tier import Record, Tier

NO_CACHE = "none"  # no KV is kept
PREFIX_TOKENS, QUESTION_TOKENS = 48, 32  # tokens


@dataclass(frozen=True, slots=True)
class SimulatedQuestion:
    """One question: cached context tokens, all context tokens, TTFT."""

    hit_tokens: int
    tokens: int
    ttft_ms: float


class SizeStore:
    """A store without content: a KV is its number of bytes."""

    def size_of(self, kv: int) -> int:
        return kv

    def can_accept(self) -> bool:
        return True

    def put(self, key: str, kv: int, record: Record) -> None:
        pass

    def get(self, key: str) -> int:
        raise KeyError(key)

    def delete(self, key: str) -> None:
        pass


class SimulatedCache:
    """Exact-prefix reuse with one eviction policy.

    token_bytes   KV of one token
    budget_bytes  of the memory tier
    """

    def __init__(
        self, policy: str, budget_bytes: int, token_bytes: int, costs: CostModel, stream: RequestStream
    ) -> None:
        self._stores_kv, self._bytes, self._costs, self._tokens = policy != NO_CACHE, token_bytes, costs, stream.tokens
        tier = Tier("host", budget_bytes, SizeStore())
        self.tree = KnowledgeTree([tier], policy if self._stores_kv else "pgdsf")

    def lengths(self, documents: tuple[int, ...]) -> tuple[int, int]:
        """Return a question's cached tokens, and the tokens to compute (the question included)."""
        cached = sum(node.tokens for node in self.tree.match_prefix(self._keys(documents)))
        return cached, int(sum(self._tokens[one] for one in documents)) - cached + QUESTION_TOKENS

    def serve(self, documents: tuple[int, ...]) -> SimulatedQuestion:
        """Serve a question: reuse, compute the rest, store it."""
        cached, compute = self.lengths(documents)
        ms = self._costs.estimate_ms(PREFIX_TOKENS + cached, compute)
        if self._stores_kv:
            self._insert(documents, self._costs.ms_per_token(PREFIX_TOKENS + cached, compute))
        return SimulatedQuestion(cached, cached + compute - QUESTION_TOKENS, ms)

    def _insert(self, documents: tuple[int, ...], ms_per_token: float) -> None:
        keys = self._keys(documents)
        with self.tree.pinned_while(keys) as nodes:
            self.tree.record_hit(nodes)
            for number in range(len(nodes), len(keys)):
                tokens = int(self._tokens[documents[number]])
                parent = keys[number - 1] if number else None
                record = Record(str(documents[number]), parent, tokens)
                if self.tree.insert(keys[number], record, tokens * self._bytes, ms_per_token) is None:
                    return

    @staticmethod
    def _keys(documents: tuple[int, ...]) -> list[str]:
        names = [str(one) for one in documents]
        return ["/".join(names[: end + 1]) for end in range(len(names))]


def simulate(
    cache: SimulatedCache, stream: RequestStream, num_warmup: int, num_questions: int
) -> Iterator[SimulatedQuestion]:
    """Yield the result of each question after the first `num_warmup`."""
    for number, documents in enumerate(stream.questions(num_warmup + num_questions)):
        served = cache.serve(documents)
        if number >= num_warmup:
            yield served
