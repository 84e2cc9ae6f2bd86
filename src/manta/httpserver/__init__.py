"""The HTTP/1.1 server behind every listener: API server, webhook, metrics, local proxy.

server      `HttpServer`: listens, stops; `Handler`: what answers the requests
connection  one client: its requests are answered one after the other, in order
parser      bytes in, requests out, within the limits
limits      every limit of a server, in one value
"""
