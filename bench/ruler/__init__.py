"""Generators of RULER's tasks (arXiv:2404.06654).

Templates, needles, haystacks and scoring follow the paper and its published code, with these differences: the passages
precede the instruction, which therefore says "the provided text"; variable tracking and common words have no worked
example; the instruction does not mention a quiz; the haystack is any English text; the word lists are ours. Three of
the thirteen tasks are missing: frequent words (fwe), and question answering (qa_1, qa_2), which `python -m bench
quality` covers on whole data sets.
"""
