"""An OpenAI-compatible server with a real block KV cache and a timing model, but without a model behind it."""
