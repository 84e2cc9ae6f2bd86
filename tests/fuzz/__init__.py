"""Fuzzers: mutated real requests against the API server, and odd custom resources against the operator.

`make fuzz` runs both for minutes; `tests/security/test_fuzz.py` a short form of each. Everything follows from a
seed: a finding names the seed and the number of the request that shows it again.
"""
