"""Conversations out and in: one module per format, all of them between text and domain objects."""
