"""Write files atomically, and recognize files that another program has written."""
