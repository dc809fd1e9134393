"""What models look at, and how alike two of them look: attention probes, KL, Jaccard; plain arrays out."""
