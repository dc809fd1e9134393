"""The default number of questions at a time; apart from the interface, so that the settings are read quickly."""

MAX_QUESTIONS = 16  # including queued ones; one is prefilled at a time, eight are decoded
