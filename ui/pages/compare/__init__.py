"""The parts of the Compare page: the table of figures, answers with their differences, and files to download."""
