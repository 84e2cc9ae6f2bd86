"""Histories of concurrent clients against a server that is killed again and again."""
