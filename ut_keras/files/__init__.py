"""Files that are written atomically, with checks of who wrote them."""
