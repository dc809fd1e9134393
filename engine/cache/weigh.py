"""What chunks take in each tier: the bytes that deleting them would free. Reads no KV and changes nothing."""

from collections.abc import Iterable
from typing import Any

from engine.cache.knowledge_tree import KnowledgeTree
from engine.cache.node import Node


def bytes_of(tree: KnowledgeTree[Any], chunks: Iterable[str]) -> dict[str, int]:
    """Return bytes by the tier's name: the copies of these chunks and of every path that goes through one of them.

    chunks  keys as `ChunkCache.names` gives them
    """
    weights = {tier.name: 0 for tier in tree.tiers}
    seen: set[Node] = set()
    with tree.locked() as copies:
        waiting = [node for chunk in chunks for node in copies.by_chunk.get(chunk, ())]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += node.children
                for number, copy in node.copies.items():
                    weights[tree.tiers[number].name] += copy.size_bytes
    return weights
