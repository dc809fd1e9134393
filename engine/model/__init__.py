"""One decoder: resolve, load, run chosen rows, decode. Only this folder knows transformers' insides."""
