"""The layers of the Neural GPU, a recurrence of gated convolutions over positions."""
