"""What makes a built-in object invalid, one file per family of kinds.

A check takes an object that has its defaults, and the old one if it is an update, and yields
causes in the words of the real server. It covers what people and controllers get wrong; a few
fields that nothing here reads are taken as they come.
"""
