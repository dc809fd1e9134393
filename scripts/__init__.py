"""Programs beside the texts. A package, so that no other one that is called docs is met instead."""
