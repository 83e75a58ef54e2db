"""Importing this brings in what every load needs, so that it can be done in one go."""

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedModel

from app.engine.fast import proof

__all__ = ["AutoConfig", "AutoModelForCausalLM", "AutoTokenizer", "DynamicCache", "PreTrainedModel", "proof"]
