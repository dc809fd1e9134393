"""The engine answers a question from cached chunks, and says where the time went.

Letters used for shapes everywhere in this package:
    L layers   H key/value heads   D head width   T tokens   R rows that are computed (R <= T)   V vocabulary

A position is an absolute token index in the prompt. Times are milliseconds and end in `_ms`; sizes are bytes and
end in `_bytes`; a ratio is between 0 and 1.
"""
