"""Sentences of Costa et al. 2003 that study `recovery` judges by several claims."""

from __future__ import annotations

RESULTS = (
    "our algorithms bring a remarkable improvement of event delivery, are scalable, and pay only a limited "
    "overhead"
)
CHANCES = (
    "this combination improves the chances to recover an event, since the recovery process proceeds not only "
    "along the routes towards receivers, but also towards the sender"
)
SMALL = (
    "scenarios where the sets of subscriptions held by each dispatcher have a small intersection are very "
    "critical for pull, while they do not affect significantly the performance of push"
)
COUPLE = (
    "One way to overcome this limitation of the pull approaches is to couple them with others. A natural "
    "solution is to combine subscriber-based with publisher-based pull"
)
DOMINATES = (
    "what dominates the behavior of push is not the sheer number of patterns in the system, but only the "
    "number of patterns potentially matched by each event"
)
BUFFER = (
    "a bigger buffer size essentially allows events to persist longer in the cache, and hence enables less "
    "frequent gossiping, thus essentially trading storage consumption on dispatchers for communication "
    "overhead"
)
ADAPTIVE = (
    "To remove this potential source of inefficiency, an adaptive approach can be exploited where the gossip "
    "interval is changed dynamically according to the current state of the system"
)
