"""The backend of the UI and the HTTP server: the models, documents and engine of one data folder."""
