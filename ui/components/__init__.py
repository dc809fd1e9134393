"""Documents wherever they are shown: the panel at the side, files on their way in, parts of the Library page."""
