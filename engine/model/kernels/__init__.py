"""Our own CPU kernels: source, compilation on the user's machine, and the checks before one is used."""
