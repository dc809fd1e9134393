"""One decoder: resolve, load, run selected rows, decode. Only this package knows the internals of transformers."""
