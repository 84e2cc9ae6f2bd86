"""The defaults of built-in kinds. These functions change the object that they are given."""
