"""Handlers: from a routed request to its answer, one module for each group of verbs.

A handler decodes the request, calls the resource store, and renders the answer.
"""
