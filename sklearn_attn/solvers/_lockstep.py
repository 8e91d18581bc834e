"""Several minimisations that share the evaluation of their functions."""


def run_in_lockstep(minimisations, evaluate):
    """Run several minimisations, evaluating the points that all of them wait for together.

    Parameters
    ----------
    minimisations : sequence of generators
        Such as `lbfgs_steps`; each yields points and returns its result.
    evaluate : callable
        Takes the indices of the minimisations that wait, a list of int, and their points, a list of ndarray;
        returns as many pairs of value and gradient.

    Returns
    -------
    list
        What each returned.
    """
    results = [None] * len(minimisations)
    waiting = {}

    def advance(i, answer):
        try:
            waiting[i] = minimisations[i].send(answer)
        except StopIteration as stop:
            waiting.pop(i, None)
            results[i] = stop.value

    for i in range(len(minimisations)):
        advance(i, None)
    while waiting:
        indices = list(waiting)
        answers = evaluate(indices, list(waiting.values()))
        for i, answer in zip(indices, answers, strict=True):
            advance(i, answer)
    return results
