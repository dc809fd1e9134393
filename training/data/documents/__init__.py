"""Invented documents with questions: many kinds, two versions of some, in the form in which passages are prompted."""
