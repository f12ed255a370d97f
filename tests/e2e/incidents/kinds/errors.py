"""Errors in the program of one worker, or in what it was given."""

from __future__ import annotations

from incidents.incident import STILL, WELL, Incident, Setup

_UNEVEN = {"BATCH": "128", "WIDTH": "256", "BURN": "60", "STEP": "0.02"}

INCIDENTS = (
    Incident(
        "exception",
        "worker:1 raises KeyError('labels') between two steps",
        begin=lambda cluster: cluster.order("worker:1", "exception"),
        lasts=21,
        says={6: r"worker:1.*KeyError", 10: r"worker:1 exited 1.*KeyError: 'labels'", 20: r"KeyError: 'labels'"},
        while_it_lasts=STILL,
        never=r"worker:1[^;]*peer|^worker:[02] (exited|has died)",
        report=r"worker:1 exited 1.*KeyError: 'labels'",
    ),
    Incident(
        "end of data",
        "worker:1 has fewer batches than the others, ends its training, and exits 0",
        begin=lambda cluster: cluster.order("worker:1", "end of data"),
        says={
            5: "worker:1",
            15: r"worker:1.*(fewer|left|batches|different collectives)",
            30: r"worker:1.*(fewer|batches|different collectives)",
        },
        while_it_lasts=STILL,
        report=r"worker:1.*(fewer|batches|different collectives)",
    ),
    Incident(
        "no data",
        "the data set of worker:1 is used up, and TensorFlow gives it empty batches",
        begin=lambda cluster: cluster.order("worker:1", "no data"),
        lasts=21,
        says={20: r"worker:1.*(data|examples|batch)"},
        report=r"worker:1.*(data|examples|batch)",
    ),
    Incident(
        "not a number",
        "a batch of worker:2 has values that are no numbers",
        begin=lambda cluster: cluster.order("worker:2", "not a number"),
        lasts=16,
        says={6: r"not a (finite )?number|not finite|NaN", 15: r"worker:2.*(not a|not finite|NaN|no number)"},
        report=r"worker:2.*(not a|not finite|NaN|no number)",
    ),
    Incident(
        "larger batch",
        "worker:1 has four times the batch of the others",
        setup=Setup(variables=_UNEVEN, own={"worker:1": {"BATCH": "512"}}, starts=False),
        lasts=70,
        says={60: r"worker:1.*slow.*(examples|batch)"},
        never=r"worker:[02] (is|has been)",
        report=r"worker:1.*(examples|batch)",
    ),
    Incident(
        "other model",
        "the model of worker:1 has a layer more",
        setup=Setup(own={"worker:1": {"LAYERS": "2"}}, starts=False),
        lasts=60,
        says={55: r"different (collectives|models?|shapes?|scripts?)"},
        never=WELL,
        report=r"different",
    ),
    Incident(
        "other version",
        "the script of worker:1 is of another version: it evaluates after 100 steps, and the others go on",
        setup=Setup(own={"worker:1": {"STEPS": "100", "VALIDATION": "1"}}, starts=False),
        lasts=70,
        says={65: r"worker:1.*(evaluat|another collective)"},
        report=r"worker:1.*(evaluat|another collective)",
    ),
)
