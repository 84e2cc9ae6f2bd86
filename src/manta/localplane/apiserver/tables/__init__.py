"""What `kubectl get` prints: the columns of each kind, and how their cells are filled."""
