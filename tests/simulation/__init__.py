"""The whole system in one process under a virtual clock, from one seed.

python -m tests.simulation --seeds 1-5000 --profile all

`story` has the data (objects, faults and edits with their times), `generate` draws one from a seed, `world`
runs it, `oracles` has what must never happen, `shrink` makes a failing story short, `systematic` has the
plans of a crash after every write and of every watch event lost or late. docs/internals/simulation.md
explains them.
"""
