"""Turn a request into a prompt: validate, retrieve, pack into the context, apply the template."""
