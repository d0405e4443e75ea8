"""Record live agent runs without their content and replay them against any inference server."""
