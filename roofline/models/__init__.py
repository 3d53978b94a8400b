"""Communication models, one module each: what a transfer costs, fitted from measured sweeps.

Every model is a set of straight lines over the message size (or over the number of messages), fitted by
`npc.roofline.models.piecewise` and carried with their uncertainty by `npc.roofline.models.estimate`. Times
are seconds, sizes bytes.
"""
