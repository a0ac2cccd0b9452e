"""Who is done when: the halting rules."""
