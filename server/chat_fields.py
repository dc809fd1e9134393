"""Fields of OpenAI's and vLLM's chat completion requests that KVScope does not implement.

`docs/http.md` has a table of all fields. The name of a field inside another one starts with that one's name, such as
`messages.name`.
"""

import re
from collections.abc import Mapping
from typing import Any

from server.errors import ApiError

UNSUPPORTED: dict[str, tuple[Any, ...]] = {  # field -> values without effect, in addition to null; others are refused
    "n": (1,),
    "best_of": (1,),
    "use_beam_search": (False,),
    "length_penalty": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "repetition_detection": (),
    "top_k": (0, -1),
    "min_p": (0,),
    "logit_bias": ({},),
    "logits_processors": ([],),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "stop": ("", []),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "ignore_eos": (False,),
    "min_tokens": (0,),
    "thinking_token_budget": (),
    "truncate_prompt_tokens": (),
    "truncation_side": (),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "return_prompt_text": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "echo": (False,),
    "suffix": ("",),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "add_special_tokens": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({}, {"enable_thinking": False}),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_decoding_backend": (),
    "guided_whitespace_pattern": (),
    "structural_tag": (),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "mm_processor_kwargs": ({},),
    "media_io_kwargs": ({},),
    "documents": ([],),
    "web_search_options": (),
    "prediction": (),
    "moderation": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "cache_salt": (),
    "kv_transfer_params": (),
    "ec_transfer_params": (),
    "vllm_xargs": ({},),
    "stream_options.continuous_usage_stats": (False,),
    "messages.name": (),
    "messages.tool_calls": ([],),
    "messages.tool_call_id": (),
    "messages.function_call": (),
    "messages.audio": (),
    "messages.refusal": (),
}
IGNORED = {  # accepted with any value, because the answer does not depend on them
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "parallel_tool_calls",  # without tools
    "include_reasoning",
    "priority",
    "request_id",
    "stream_options.include_obfuscation",
    "messages.annotations",
    "messages.reasoning",
    "messages.reasoning_content",
    "messages.content.cache_control",
    "messages.content.prompt_cache_breakpoint",
}


def check_fields(fields: Mapping[str, Any] | None, place: str = "") -> None:
    """Raise ApiError (400) if one of these fields is unknown, or unsupported with a value that has an effect.

    `place` is where they are in the body, such as "messages.0.".
    """
    for field, value in (fields or {}).items():
        name = re.sub(r"\d+\.", "", place) + field
        if value is None or name in IGNORED:
            continue
        if name not in UNSUPPORTED:
            raise ApiError(400, f"Unrecognized request argument supplied: {field}", param=place + field)
        if value not in UNSUPPORTED[name]:
            raise ApiError(400, f"KVScope does not support this value of {field!r}; leave it out.", param=place + field)
