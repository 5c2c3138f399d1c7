"""The papers' other methods of fair clustering, for comparison."""
