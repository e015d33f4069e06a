"""Pure state machines: inputs in, effects out. No I/O, no clock, no randomness of their own.

Nodes and clients have one door, `tidings.protocol.slots.StateMachine`. A driver (the embedded bus, the
simulator, sockets) hands inputs in and performs the effects.
"""
