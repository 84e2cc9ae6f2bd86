"""`manta top`: the fleet in a terminal, from the same snapshots as the pages. Only `app` needs Textual."""
