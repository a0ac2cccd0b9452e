"""What says where a position is."""
