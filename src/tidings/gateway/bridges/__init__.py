"""Bridges to what people already run: NATS and JetStream, Redis streams, another MQTT broker."""
