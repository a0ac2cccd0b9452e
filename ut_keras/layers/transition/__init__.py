"""What a position makes of itself between two attentions."""
