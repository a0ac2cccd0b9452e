"""Draws a picture as SVG from boxes, lines and text."""

INK, SOFT, PALE = "#263238", "#78909c", "#eceff1"
BLUE, GREEN, ORANGE = "#90caf9", "#a5d6a7", "#ffcc80"
# The colors of the first, second, … curve.
COLOURS = (INK, "#1e88e5", "#43a047", "#fb8c00", "#8e24aa", "#6d4c41", "#00acc1", "#e53935")


class Drawing:
    """An SVG picture with its own background, so that it is readable on any page.

    Args:
        width, height: int, in pixels.
        title: str, the description of the picture for screen readers.
    """

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" font-family="sans-serif" '
            f'font-size="13">',
            f"<title>{title}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
            f'markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="{SOFT}"/></marker>'
            '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="6" height="6" fill="{ORANGE}"/>'
            f'<path d="M0 0V6" stroke="{INK}" stroke-width="1.5"/></pattern></defs>',
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]

    def box(self, x, y, width, height, fill, text="", stroke=SOFT, dashed=False):
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
            f'fill="{fill}" stroke="{stroke}"{dash}/>'
        )
        if text:
            self.text(x + width / 2, y + height / 2 + 4.5, text)

    def text(self, x, y, text, anchor="middle", color=INK, size=13):
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}" '
            f'font-size="{size}">{text}</text>'
        )

    def line(self, x1, y1, x2, y2, arrow=True, color=SOFT, width=1.0, dashed=False):
        tip = ' marker-end="url(#tip)"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" fill="none" stroke="{color}" '
            f'stroke-width="{width}"{tip}{dash}/>'
        )

    def curve(self, points, color, width=1.8):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(
            f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'
        )

    def panel(self, left, top, size, title, end, x_ticks, y_ticks):
        """Draw the frame of a plot, from 0 to `end` and from the first to the last tick.

        Returns:
            A function from a pair of values to its position in the picture.
        """
        (width, height), (low, high) = size, (y_ticks[0], y_ticks[-1])

        def at(x, y):
            return left + x / end * width, top + (high - y) / (high - low) * height

        self.text(left, top - 18, title, "start")
        for y in y_ticks:
            self.line(*at(0, y), *at(end, y), False, PALE)
            self.text(left - 8, at(0, y)[1] + 4, f"{y:g}", "end", SOFT, 11)
        for x in x_ticks:
            self.text(at(x, low)[0], top + height + 18, f"{x:,}", color=SOFT, size=11)
        return at

    def legend(self, left, y, colours, width=112):
        """Draw the legend from a dict {name: color}."""
        for place, (name, colour) in enumerate(colours.items()):
            x = left + place * width
            self.line(x, y, x + 16, y, False, colour, 2.5)
            self.text(x + 21, y + 4, name, "start", size=11)

    def finish(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"
