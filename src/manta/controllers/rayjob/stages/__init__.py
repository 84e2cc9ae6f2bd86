"""One file per stage. Each function returns the Step of a snapshot, and executes nothing."""
