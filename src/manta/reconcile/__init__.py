"""The vocabulary of a reconcile round, and the loop that runs one.

`actions`, `plan` and `outcome` are the words; they are pure and shared by every controller.
`loop` runs a round, `perform` carries out its plan, `report` writes its status and `events`
tells what was done.
"""
