"""One concern, one file: each answers with a Step and knows nothing of how it is carried out."""
