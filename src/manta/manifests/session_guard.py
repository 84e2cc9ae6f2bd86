"""What a submitter asks right before it submits: is this the head that the job is meant for?

A head that comes back empty is a new Ray session, and knows nothing of a job that the old one ran. The
session was written down when the submitter was made, so one that is started again, however late and with
nobody watching, hands the job to no other.

The order of the two questions matters. The session that answers last has lived all the while, so that it
was the one to say that it has no such job: whatever becomes of it afterwards, it has not run it before.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from manta.api.ray import names

OTHER_SESSION_EXIT_CODE: Final = 86
"""What a submitter ends with that met another Ray session than its own, and submitted nothing."""

_SCRIPT: Final = f"""
import json, os, sys, urllib.error, urllib.request
address, job, session = sys.argv[1:]
files = [os.environ.get('RAY_AUTH_TOKEN_PATH') or '', '{names.MOUNT_TOKEN}/token']
token = os.environ.get('{names.ENV_AUTH_TOKEN}', '')
for file in files:
    token = token or (open(file).read().strip() if os.path.isfile(file) else '')
headers = {{'Authorization': 'Bearer ' + token}} if token else {{}}
def ask(path):
    request = urllib.request.Request(address + path, headers=headers)
    return json.load(urllib.request.urlopen(request, timeout=10))
try:
    ask('/api/jobs/' + job)
    sys.exit('Ray has job ' + job + ' by now: it is not submitted again')
except urllib.error.HTTPError as error:
    if error.code != 404:
        raise
found = ask('/api/version').get('session_name')
if found != session:
    print('Job', job, 'is meant for Ray session', session, 'and', found, 'answers: its head was',
          'lost, and the job with it. Nothing is submitted.', file=sys.stderr)
    sys.exit({OTHER_SESSION_EXIT_CODE})
"""


def build_session_guard(address: str, job_id: str, session: str) -> str:
    """The shell text that ends the submitter when another session answers at `address`."""
    return f'python -c "{_SCRIPT}" {address} {job_id} {quote(session)} || exit $? ;'
