"""Interface of the backend: protocols and plain data that the UI and the HTTP server depend on."""
