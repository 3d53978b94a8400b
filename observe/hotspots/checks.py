"""perf and llvm-mca, by which ``npc observe --hotspots`` sees where a program computes."""

from __future__ import annotations

from collections.abc import Iterator

from npc.machine.preflight import Environment, MpiTrial, check


@check(
    "note",
    "npc observe --hotspots needs it to record where the ranks compute",
    "on every node: apt-get install linux-perf (Ubuntu: linux-tools-$(uname -r); elsewhere the package perf)",
    name="perf",
)
def no_perf(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """No perf, or only a script in its place that finds none for this kernel."""
    perf = environment["tools"].get("perf")
    if perf is None:
        yield "there is no perf"
    elif not perf["version"]:
        from npc.observe.hotspots.perf import find_perf

        other = find_perf()
        if other.problem:
            yield other.problem


@check(
    "note",
    "npc observe --hotspots needs it to see the program, and the system in its stacks",
    "as root, on every node: sysctl kernel.perf_event_paranoid=1 (2: the program alone)",
    name="perf",
)
def perf_sees_part(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """perf that may not show everything to this user."""
    from npc.observe.hotspots.perf import is_privileged, perf_access_at

    paranoid = environment["kernel"]["perf_event_paranoid"]
    access = perf_access_at(paranoid, is_privileged())
    if environment["tools"].get("perf") and access.line:
        what = "this user's programs, not the system" if access.own else "nothing to this user"
        yield f"perf shows {what} (perf_event_paranoid {paranoid})"


@check(
    "note",
    "npc observe --hotspots needs it to say how fast the hottest loops can be",
    "where npc observe runs: apt-get install llvm-19 binutils (elsewhere LLVM 19 or later)",
    name="llvm-mca",
)
def no_loop_model(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """No llvm-mca with a model of this processor."""
    from npc.observe.hotspots.llvm import NoModel, model_of
    from npc.observe.hotspots.processor import named

    try:
        model_of(named())
    except NoModel as reason:
        yield str(reason)
    if environment["tools"].get("objdump") is None:
        yield "there is no objdump"
