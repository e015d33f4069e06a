"""The web console: pages that show a network of brokers at work, and answer why.

`listeners.py` opens it beside a broker's gateways; `app.py` is the served application; `static/` are its
pages, which load no resource from another site.
"""
