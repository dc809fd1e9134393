"""Questions that need more than one passage, made from any file of passages.

KV of a passage that was prefilled alone lacks the attention to the passages before it, so direct reuse should lose
these questions more often than questions that one passage answers. Four tasks:

split     the passages of a question, cut into short ones: pronouns, headings and dates lose what they refer to
hops      two facts, the first of which names the bridge to the second, as in HotpotQA (arXiv:1809.09600)
table     cells of a table whose header row is in another passage
defined   terms, rates and abbreviations that are defined in one passage and used in another

The facts of the last three are invented, so that no model knows them, and hidden among sentences of the file.
"""
