"""Measurements. They print JSON and assert nothing: a timing is never a test."""
