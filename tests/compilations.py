"""How many programs JAX lowers: each is a compilation, or a look into the cache on disk."""

import contextlib

import jax

_LOWERINGS = []


def _listen(event, _, **details):
    if event.endswith("jaxpr_to_mlir_module_duration"):
        _LOWERINGS.append(details.get("fun_name"))


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def lowered():
    """The names of the programs that were lowered inside."""
    start, names = len(_LOWERINGS), []
    yield names
    names.extend(_LOWERINGS[start:])
