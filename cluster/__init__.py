"""Several engines behind one router that knows the set of passages of a question."""
