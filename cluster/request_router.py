"""Sends calls to the engine that they name, where Ray Serve would choose a replica. Needs requirements-cluster.txt."""

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from cluster import running


class EngineRouter(RequestRouter):
    """`engine` is the replica's id. If it is gone, the call goes to another one, which refuses it."""

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        super().update_replicas(replicas)
        running.engines[:] = [each.replica_id.unique_id for each in replicas]

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        name = pending_request.kwargs.get("engine") if pending_request else None
        return [[each for each in candidate_replicas if each.replica_id.unique_id == name] or candidate_replicas]
