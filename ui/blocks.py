"""Gradio's Blocks with errors that are sentences for users.

Gradio's own errors name Python objects with their addresses, types, and files of this machine.
"""

from typing import Any

import gradio as gr
from gradio.block_function import BlockFunction

from backend.interface.errors import user_message
from engine.errors import BadRequest


class Blocks(gr.Blocks):
    """Blocks whose events and endpoints raise nothing but `gr.Error` with a message from `user_message`."""

    async def preprocess_data(self, block_fn: BlockFunction, *args: Any, **kwargs: Any) -> Any:
        """Convert an event's values for its handler. Raises BadRequest if its inputs do not accept them."""
        try:
            return await super().preprocess_data(block_fn, *args, **kwargs)
        except OSError:  # e.g. a full disk, which is not the values' fault
            raise
        except gr.Error as error:  # of a number field
            raise BadRequest("A number is out of its range.") from error
        except Exception as error:
            raise _wrong_values(block_fn) from error

    async def process_api(self, block_fn: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run an event's handler up to its next result."""
        event = kwargs.get("event_data")
        if isinstance(event, gr.EventData) and not isinstance(event._data, dict):
            event._data = {}  # what the handlers read
        try:
            if block_fn.fn is None:  # an event of the browser alone
                raise _wrong_values(block_fn)
            return await super().process_api(block_fn, *args, **kwargs)
        except Exception as error:
            raise gr.Error(user_message(error), print_exception=False) from error


def _wrong_values(block_fn: BlockFunction) -> BadRequest:
    if block_fn.api_visibility == "public":
        return BadRequest(f"The endpoint {block_fn.api_name!r} takes other arguments; see /gradio_api/info.")
    return BadRequest("The page sent values that this event does not take. Reload it.")
