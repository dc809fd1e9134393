"""The measures by the name of their command, in the order of the help."""

from bench.cache import run as cache
from bench.cluster import faults as cluster_faults
from bench.cluster import kills as cluster_kills
from bench.cluster import run as cluster
from bench.measures import (
    adaptive,
    attention,
    concurrency,
    corruption,
    decode,
    documents,
    draft,
    faults,
    fidelity,
    fuzz,
    ingest,
    kernel,
    kv_faults,
    peers,
    quality,
    retrieval,
    ruler,
    scoring,
    startup,
    tiers,
    ttft,
    uploads,
)
from bench.soak import run as soak

MEASURES = {
    "quality": quality,
    "adaptive": adaptive,
    "documents": documents,
    "retrieval": retrieval,
    "draft": draft,
    "fidelity": fidelity,
    "ingest": ingest,
    "uploads": uploads,
    "fuzz": fuzz,
    "faults": faults,
    "corruption": corruption,
    "kv-faults": kv_faults,
    "cluster-faults": cluster_faults,
    "cluster-kills": cluster_kills,
    "soak": soak,
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
    "cluster": cluster,
}
