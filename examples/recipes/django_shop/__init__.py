"""A Django application whose orders are events: ORM signals publish, a management command consumes."""
