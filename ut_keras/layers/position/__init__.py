"""Position signals, and signals of the recurrence steps."""
