"""Decisions of the runtime in which time and messages are the subject: pure step functions."""
