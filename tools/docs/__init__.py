"""The reference pages, written from the code so that they cannot tell another story."""
