"""How a command reaches an API server, and what it reads from there and from manifest files."""
