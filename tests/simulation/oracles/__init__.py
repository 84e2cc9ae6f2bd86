"""What must never happen, each stated once, in a file for each subject. The table also makes the documentation.

An oracle sees every accepted write right after it (`written`, with the state before in `world.live`), every
write that an operator sent (`sent`), and the end (`ended`). It reports a sentence for each violation. To add
one, write a class and enter it in `ORACLES`.
"""

from simulation.oracles.jobs import AsRaySays, OneJobPerTick, RunsOnce, TerminalStays
from simulation.oracles.oracle import Oracle, is_operator
from simulation.oracles.ownership import DeletesByUid, FinalizersEnd, OwnObjectsOnly
from simulation.oracles.pods import NewHeadNames, NoExtraPods, OneHead, PodDeletions, RollsGently
from simulation.oracles.processes import BacksOff, GenerationsOnly, LeaderWrites, NoReconcileRaises
from simulation.oracles.services import ConfigOnce, ServesOnly, TwoClusters
from simulation.oracles.states import AsSpecified, WaitsAreVisible

ORACLES: tuple[type[Oracle], ...] = (
    OneHead,
    NewHeadNames,
    PodDeletions,
    NoExtraPods,
    RollsGently,
    RunsOnce,
    TerminalStays,
    AsRaySays,
    ServesOnly,
    TwoClusters,
    DeletesByUid,
    OwnObjectsOnly,
    FinalizersEnd,
    WaitsAreVisible,
    AsSpecified,
    LeaderWrites,
    ConfigOnce,
    BacksOff,
    OneJobPerTick,
    GenerationsOnly,
    NoReconcileRaises,
)

AT_THE_END = (
    (
        "no-hot-loop",
        "Requests and reconciles of everybody together are at most 5,000 in a virtual minute.",
    ),
    (
        "quiet",
        (
            "Within 20 virtual minutes after the last fault the operators come to rest: "
            "0 writes in six and a quarter minutes."
        ),
    ),
    (
        "converges",
        "Then everything is as in a run without faults from the same specs.",
    ),
)
"""Checked by `run`, beside the table."""

__all__ = ["AT_THE_END", "ORACLES", "Oracle", "is_operator"]
