"""RULER's tasks, generated here: needles in a haystack, variable tracking, common words (arXiv:2404.06654).

Templates, needles, haystacks and scoring follow the paper and its published code. What differs: the passages stand
before the instruction, so that says "the provided text" and not "the following text"; no worked example goes before
variable tracking and common words, and nothing is said about a quiz; the haystack of essays is a text of one's own; the
word lists are ours. Three of the paper's thirteen tasks are missing: frequent words (fwe), and question answering
(qa_1, qa_2), which `python -m bench quality` does on whole data sets.
"""
