"""The measures by the name of their command, in the order of the help."""

from bench.cache import run as cache
from bench.measures import (
    attention,
    concurrency,
    decode,
    documents,
    draft,
    fidelity,
    fuzz,
    ingest,
    kernel,
    peers,
    quality,
    ruler,
    scoring,
    startup,
    tiers,
    ttft,
    uploads,
)

MEASURES = {
    "quality": quality,
    "documents": documents,
    "draft": draft,
    "fidelity": fidelity,
    "ingest": ingest,
    "uploads": uploads,
    "fuzz": fuzz,
    "startup": startup,
    "ruler": ruler,
    "ttft": ttft,
    "decode": decode,
    "concurrency": concurrency,
    "kernel": kernel,
    "peers": peers,
    "attention": attention,
    "tiers": tiers,
    "scoring": scoring,
    "cache": cache,
}
