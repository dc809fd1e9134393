"""Interface of the Inspect and Compare pages: what the models attend to, and several methods on one question."""

from collections.abc import Iterator
from threading import Event
from typing import Protocol

from engine.analysis.comparison import CompareRequest, Comparison
from engine.analysis.inspection import InspectionStep
from engine.request import Request


class InspectService(Protocol):
    """Shows how token selection works for one question."""

    def inspect(self, request: Request, cancel: Event) -> Iterator[InspectionStep]:
        """Run the selection of one question without generating an answer.

        Parameters
        ----------
        request : Request
            The question, its method and its options.
        cancel : Event
            Stops the run within a layer.

        Yields
        ------
        InspectionStep
            Progress; the last step contains the result.

        Raises
        ------
        KVScopeError
            If the models are not loaded, or the request is invalid.
        """
        ...


class CompareService(Protocol):
    """Compares methods on one question."""

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        """Run a question through several methods.

        Parameters
        ----------
        request : CompareRequest
            The question and the methods, ratios and repeats to run.
        cancel : Event
            Stops the run within a layer or a token; the comparison then ends in the state 'stopped'.

        Yields
        ------
        Comparison
            The comparison so far, with one more outcome after each run.

        Raises
        ------
        KVScopeError
            If the models are not loaded, or the request is invalid.
        """
        ...
