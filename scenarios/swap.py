"""Two agents who each copy what the other one holds."""


def sets_a(tick):
    tick.share("a", tick.shared["b"])


def sets_b(tick):
    tick.share("b", tick.shared["a"])
