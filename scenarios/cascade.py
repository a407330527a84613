"""People who choose once, by their own signal and by what they saw others choose."""


def person(tick):
    if tick.state.get("chose"):
        return
    signal = int(tick.rng.random() < tick.parameters["p"])
    seen = tick.shared["choices"]
    tick.state["chose"] = True
    tick.share("choices", chosen(seen, signal, tick.rng))


def chosen(seen, signal, rng):
    """Return what a reasonable person chooses; on a draw a coin is thrown.

    Choices tell of signals in pairs: two alike begin a cascade, two unlike cancel out.
    """
    for first, second in zip(seen[::2], seen[1::2], strict=False):
        if first == second:
            return first
    if len(seen) % 2 == 0 or seen[-1] == signal:
        return signal
    return rng.randrange(2)


def right(view):
    return sum(view.shared["choices"])


def majority(view):
    """1 where more than half of those who chose are right."""
    return int(2 * sum(view.shared["choices"]) > len(view.shared["choices"]))
