"""What the container image is made of."""
