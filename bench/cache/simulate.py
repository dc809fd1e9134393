"""Policies on the paper's scale: the real tree, without bytes, under the cost that was measured on this machine.

Questions come one after the other; time is what T(cached, computed) says. Only KV in memory counts: one tier.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.cache.workload import RequestStream
from engine.cache.cost_model import CostModel
from engine.cache.eviction import POLICIES
from engine.cache.knowledge_tree import KnowledgeTree, NodeKey
from engine.cache.tier import Record, Tier

NO_CACHE = "none"  # the policy that keeps nothing
PREFIX_TOKENS, QUESTION_TOKENS = 48, 32  # tokens of the shared prefix and of a question


@dataclass(frozen=True, slots=True)
class SimulatedQuestion:
    """One question: context tokens found, all of them, and milliseconds to its first token."""

    hit_tokens: int
    tokens: int
    ttft_ms: float


class SizeStore:
    """A store that only counts: KV is its number of bytes."""

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
    """Exact-prefix reuse of one policy: what a question finds, and what it leaves behind.

    token_bytes   of KV
    budget_bytes  of memory
    """

    def __init__(
        self, policy: str, budget_bytes: int, token_bytes: int, costs: CostModel, demand: RequestStream
    ) -> None:
        self._keeps, self._bytes, self._costs, self._tokens = policy != NO_CACHE, token_bytes, costs, demand.tokens
        tier = Tier("host", budget_bytes, SizeStore())
        self.tree = KnowledgeTree([tier], POLICIES[policy]() if self._keeps else None)

    def lengths(self, documents: tuple[int, ...]) -> tuple[int, int]:
        """Return the tokens of a question's passages that are found now, and those to compute with the question."""
        cached = sum(node.tokens for node in self.tree.match_prefix(self._keys(documents)))
        return cached, int(sum(self._tokens[one] for one in documents)) - cached + QUESTION_TOKENS

    def serve(self, documents: tuple[int, ...]) -> SimulatedQuestion:
        """Answer a question: use what is there, compute the rest, keep it."""
        cached, compute = self.lengths(documents)
        ms = self._costs.estimate_ms(PREFIX_TOKENS + cached, compute)
        if self._keeps:
            self._keep(documents, self._costs.ms_per_token(PREFIX_TOKENS + cached, compute))
        return SimulatedQuestion(cached, cached + compute - QUESTION_TOKENS, ms)

    def _keep(self, documents: tuple[int, ...], ms_per_token: float) -> None:
        keys = self._keys(documents)
        with self.tree.pinned_while(keys) as nodes:
            self.tree.record_hit(nodes)
            for number in range(len(nodes), len(keys)):
                tokens = int(self._tokens[documents[number]])
                parent = keys[number - 1] if number else None
                place = NodeKey(keys[number], str(documents[number]), parent, tokens)
                if self.tree.insert(place, tokens * self._bytes, ms_per_token) is None:
                    return

    @staticmethod
    def _keys(documents: tuple[int, ...]) -> list[str]:
        names = [str(one) for one in documents]
        return ["/".join(names[: end + 1]) for end in range(len(names))]


def simulate(reuse: SimulatedCache, demand: RequestStream, warm: int, questions: int) -> Iterator[SimulatedQuestion]:
    """Yield what became of each question behind the first `warm` ones."""
    for number, documents in enumerate(demand.questions(warm + questions)):
        served = reuse.serve(documents)
        if number >= warm:
            yield served
