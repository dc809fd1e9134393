"""The doors for programs beside the page: OpenAI's chat API, health, metrics, and the guard in front of everything."""
