"""Facts about a RayService: pure predicates and values that several phases derive from a snapshot."""
