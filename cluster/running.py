"""The engines that run, as far as this process knows. Ray copies `request_router`, which writes it, so it is apart."""

engines: list[str] = []  # their names
