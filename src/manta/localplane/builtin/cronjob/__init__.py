"""The CronJob controller: a Job at every scheduled time.

`snapshot` is a CronJob with its Jobs; `timing` finds the time that is due and the next one; `plan`
decides, `status` reports. All pure; `controller` ties them to the API.

The name of a Job follows from its scheduled time, so a time that is planned twice, as after a crash,
gives one Job.
"""
