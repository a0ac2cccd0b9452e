def normalized(line):
    return " ".join(line.strip().lower().split())
