"""What runs inside an agent: decorators, spans, and what records its calls there."""
