"""Mutation check: changes one operator, comparison or constant at a time, and runs the tests that cover it."""
