"""What stands behind the page: models, documents and engine of one data folder, one desk for each thing it asks for."""
