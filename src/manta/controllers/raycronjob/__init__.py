"""The life of a RayCronJob: the smallest full controller, and the worked example of the five rooms.

    observe    the RayCronJob and the RayJobs it made, from the cache, and the time of day
    plan       is a tick due? then create its RayJob; are there too many finished ones? delete them
    apply      the shared performer: the name of a child follows from its tick, so that a second
               attempt after any crash finds the first one's child and makes no other
    status     `lastScheduleTime` = the tick, once its child is known to exist
    events     one table

A tick is served when its child exists; it is recorded after that, never before. So a crash in
between repeats the creation of the same name, which the API server refuses. After a pause or
downtime the latest missed tick is caught up and the others are let go (KubeRay replays them all:
`--cron-replay-missed`). Between ticks the controller sleeps: no request is made.
"""
