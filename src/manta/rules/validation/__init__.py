"""What is wrong with a spec, in words: a list of violations, never an exception."""
