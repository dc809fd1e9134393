"""Decode an answer: stream, sample, score sentences and spans, cite."""
