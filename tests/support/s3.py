"""An S3 server on this machine (moto)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def s3_server(bucket: str, address: str = "127.0.0.1", port: int = 0) -> Iterator[dict[str, str]]:
    """The environment that reaches the server, in which the bucket exists."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=address, port=port, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    boto3.client(
        "s3", region_name="us-east-1", endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id="test", aws_secret_access_key="test",
    ).create_bucket(Bucket=bucket)  # fmt: skip
    try:
        yield environment
    finally:
        server.stop()
