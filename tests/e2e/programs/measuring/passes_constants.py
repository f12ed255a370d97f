"""Delays and passes of `passes.py`, for the program and for its test."""

DELAYS = {"host": 0.04, "input": 0.03, "compute": 0.02, "update": 0.015}
"""Seconds in each phase of a step."""
STEPS = 12
_ON = [
    "constant_folding",
    "arithmetic_optimization",
    "remapping",
    "dependency_optimization",
    "function_optimization",
    "loop_optimization",
    "layout_optimizer",
    "shape_optimization",
    "implementation_selector",
]
_OFF = [
    "disable_model_pruning",
    "debug_stripper",
    "scoped_allocator_optimization",
    "pin_to_host_optimization",
    "disable_meta_optimizer",
    "auto_mixed_precision_onednn_bfloat16",
]
PASSES: dict[str, dict[str, bool]] = {"none": {}}
"""Options of grappler, each with one pass switched: off if it is usually on, and on if it is usually off."""
PASSES |= {name: {name: False} for name in _ON}
PASSES |= {name: {name: True} for name in _OFF}
