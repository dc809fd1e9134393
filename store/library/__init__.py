"""Add, re-chunk and delete documents as transactions."""
