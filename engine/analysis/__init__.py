"""Analysis of methods and models: attention profiles, KL divergence, Jaccard overlap, comparisons of methods."""
