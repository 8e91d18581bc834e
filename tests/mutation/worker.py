"""Run tests in forks of a process that has the libraries loaded; see `run.py`, which starts it.

Reads a job a line from standard input, a JSON object with "tests" (arguments of pytest) and "timeout" (seconds),
and answers with a line: "killed", "survived", "timeout", or "broken" where pytest ran no test.
"""

import ast
import collections
import contextlib
import json
import os
import random
import signal
import sys
import time

import pytest


class _Server:
    """Takes the place of pytest's loop over the tests it has collected: runs them in a fork for every mutant."""

    def __init__(self, jobs, answers, log):
        self.jobs, self.answers, self.log, self.items = jobs, answers, log, []

    def pytest_runtestloop(self, session):
        self.items = list(session.items)
        for line in self.jobs:
            self.answers.write(json.dumps(self._answer(session, json.loads(line))) + "\n")
            self.answers.flush()
        return True

    def _answer(self, session, job):
        start = time.monotonic()
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            _run_tests(session, self.items, job, write, self.log)
        os.close(write)
        outcome = _wait(child, job["timeout"])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if outcome == "timeout":
            os.waitpid(child, 0)
        os.set_blocking(read, False)
        with open(read, "rb") as pipe:
            said = (pipe.read() or b"").decode()
        if "budget" in job and outcome == "survived":
            self.items = _within(job["budget"], self.items, json.loads(said))
            return {
                "outcome": outcome,
                "by": f"{len(self.items)} of {len(session.items)} tests",
                "seconds": job["budget"],
            }
        return {"outcome": outcome, "by": said, "seconds": round(time.monotonic() - start, 2)}


def _within(budget, items, seconds):
    """Take tests of about so many seconds in all: of every test function some cases, drawn at random."""
    functions = collections.defaultdict(list)
    for item, duration in zip(items, seconds, strict=True):
        functions[item.nodeid.partition("[")[0]].append((item, duration))
    drawn, random_state = [], random.Random(0)
    for cases in functions.values():
        random_state.shuffle(cases)
        spent = 0.0
        for turn, (item, duration) in enumerate(cases):
            if turn and spent + duration > budget / len(functions):
                break
            spent += duration
            drawn.append((turn, duration, len(drawn), item))
    return [item for *_, item in sorted(drawn, key=lambda case: case[:3])]


def _run_tests(session, items, job, write, log):
    code, seconds = 1, []
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if job.get("source"):
            _break(job["module"], job["function"], job["source"])
        for item, following in zip(items, [*items[1:], None], strict=True):
            start = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed or session.shouldstop:
                os.write(write, item.nodeid.encode())
                break
            seconds.append(time.monotonic() - start)
        else:
            code = 0 if items else 5
            if "budget" in job:
                os.write(write, json.dumps([round(x, 3) for x in seconds]).encode())
    except BaseException as error:
        os.write(write, f"{type(error).__name__}: {error}".encode())
        code = 1 if isinstance(error, ImportError) else 6
    os._exit(code)


def _break(module, function, source):
    """Give a function of a module the code that it has in the broken source."""
    if function == "module":
        _break_constant(module, source)
        return
    names = function.split(".")
    place = sys.modules[module]
    for depth, name in enumerate(names):
        place = vars(place)[name]
        if not isinstance(place, type):
            names = names[: depth + 1]
            break
    if isinstance(place, property):
        place = place.fget
    while hasattr(place, "__wrapped__") or hasattr(place, "__func__"):
        place = place.__wrapped__ if hasattr(place, "__wrapped__") else place.__func__
    todo = [compile(source, place.__code__.co_filename, "exec")]
    while todo:
        code = todo.pop()
        if code.co_qualname == ".".join(names):
            place.__code__ = code
            return
        todo += [constant for constant in code.co_consts if hasattr(constant, "co_qualname")]
    raise LookupError(function)


def _break_constant(module, source):
    """Set what a module's top level assigns differently in the broken source, wherever it was imported."""
    module = sys.modules[module]
    with open(module.__file__) as file:
        before = {ast.unparse(statement) for statement in ast.parse(file.read()).body}
    for statement in ast.parse(source).body:
        if ast.unparse(statement) in before:
            continue
        old = dict(vars(module))
        try:
            exec(compile(ast.Module([statement], []), module.__file__, "exec"), vars(module))
        except Exception as error:
            raise ImportError(f"{type(error).__name__}: {error}") from error
        for name, value in list(vars(module).items()):
            if old.get(name) is value:
                continue
            for other in [m for n, m in sys.modules.items() if n.startswith("sklearn_attn")]:
                if vars(other).get(name, other) is old[name]:
                    setattr(other, name, value)
            _break_defaults(module, name, value, source)


def _break_defaults(module, name, value, source):
    """Set the defaults that are this constant: they were bound when the functions were made."""
    for function in [f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef)]:
        made, parameters = vars(module)[function.name], function.args
        for place, default in enumerate(parameters.defaults):
            if isinstance(default, ast.Name) and default.id == name:
                defaults = made.__defaults__
                made.__defaults__ = (*defaults[:place], value, *defaults[place + 1 :])
        for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            if isinstance(default, ast.Name) and default.id == name:
                made.__kwdefaults__[parameter.arg] = value


def _wait(child, timeout):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {0: "survived", 5: "broken", 6: "broken"}.get(code, "killed")
        time.sleep(0.002)
    return "timeout"


def main(log, *tests):
    """Answer jobs until there are no more."""
    jobs, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    sys.path.insert(0, os.getcwd())
    output = os.open(log + ".pytest", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    options = ["-q", "--no-header", "--tb=short", "--capture=no"]
    options += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        sys.path.insert(0, os.path.join(os.getcwd(), "tests"))
        options += ["-p", "interpreted"]
    sys.exit(pytest.main([*options, *tests], plugins=[_Server(jobs, answers, log)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
