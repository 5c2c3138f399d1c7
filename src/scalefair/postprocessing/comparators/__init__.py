"""Other published methods of fair regression, to compare with."""
