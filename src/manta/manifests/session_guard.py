"""Shell code with which a submitter checks, right before it submits, that the head is still the same.

A head that restarts without storage is a new Ray session, which does not know the jobs of the old one. The
session is recorded when the submitter is created, so a submitter that restarts later does not submit the job to
another session.

The order of the two requests matters: job first, session second. If the session still matches after the head
said that it has no such job, that session has not run the job before.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from manta.api.ray import names

OTHER_SESSION_EXIT_CODE: Final = 86
"""Exit code of a submitter that found another Ray session and submitted nothing."""

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
    """Shell code that exits the submitter when another session answers at `address`."""
    return f'python -c "{_SCRIPT}" {address} {job_id} {quote(session)} || exit $? ;'
