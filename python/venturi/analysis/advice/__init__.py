"""What a reader of a run should know before believing it."""
