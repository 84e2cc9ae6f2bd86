"""The history server: Ray's dashboard API and frontend for sessions that are gone.

answers    each endpoint as a function of an index
frontend   the files of Ray's own frontend, of the version that ran or the nearest
access     who may read what
server     routes requests; every request names its session in the path
"""
