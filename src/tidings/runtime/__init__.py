"""Driver two: asyncio. It performs effects; what a broker or a client does is in `protocol`."""
