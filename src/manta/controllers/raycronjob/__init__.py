"""RayCronJob: the smallest full controller, and the worked example of the phases.

    observe         the RayCronJob and the RayJobs it created, from the caches, and the time
    plan            create the RayJob of a tick that is due; delete finished ones beyond the limits
    next_status     `lastScheduleTime`, once the RayJob of the tick exists; why there is none
    status_events   why no RayJob is created
    next_wakeup     the next tick

The name of a child follows from its tick, and the status records the tick only after the child
exists. So a crash in between repeats a creation that the API server refuses. After downtime only
the latest missed tick is served (KubeRay replays them all: `--cron-replay-missed`). Between ticks
the controller sleeps and sends no request.
"""
