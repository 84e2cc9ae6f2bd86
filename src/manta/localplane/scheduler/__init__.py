"""The scheduler: gives every unbound Pod a node, or says why none fits.

`demand` reads what a Pod asks for, `ledger` keeps what the nodes still have, `placement` chooses
(pure), `preemption` looks for Pods of lower priority that could make room (pure), and `loop` ties
them to the API: it reacts to watch events, works through the Pods by priority, and binds.
"""
