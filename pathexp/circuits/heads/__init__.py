"""Questions about heads: where each attends, what it writes, whether it copies, which are induction heads."""
