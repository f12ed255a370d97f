"""Frozen records of an agent's messages: recordings and exports hold the same, in one schema.

Durations are seconds, ratios 0 to 1, `None` is unknown. In the columns of `StepBatch`, NaN is unknown. The wire
(protos/tfscale/v1) has the same fields under the same names; `docs/reference/schema.md` explains each. One module holds
the records of one message.
"""
