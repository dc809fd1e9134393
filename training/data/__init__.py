"""Training examples: corpora, synthetic facts, cloze questions, packed forward passes."""
