"""Writes the small Qwen3 model that the tests with a real engine serve.

    make_model.py DIRECTORY      DIRECTORY holds tokenizer.json and tokenizer_config.json already

Runs under the Python that has torch. The weights are random but of ordinary size: with the engine's own
dummy weights all logits are equal, so a wrong KV block would change nothing that can be seen. The seed is
fixed, so greedy output is a function of the prompt and the same in every run.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

HIDDEN, INNER, VOCABULARY, HEAD = 64, 128, 151936, 64
QUERY_HEADS, KV_HEADS, LAYERS = 2, 1, 2

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16",
    "hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY,
    "num_hidden_layers": LAYERS, "num_attention_heads": QUERY_HEADS,
    "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "hidden_act": "silu",
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
    "attention_bias": False, "tie_word_embeddings": True, "bos_token_id": 151643,
    "eos_token_id": 151645,
}


def noise(*shape, std):
    return (torch.randn(*shape) * std).to(torch.bfloat16)


def ones(size):
    return torch.ones(size, dtype=torch.bfloat16)


def weights():
    torch.manual_seed(0)
    table = {"model.embed_tokens.weight": noise(VOCABULARY, HIDDEN, std=1.0),
             "model.norm.weight": ones(HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        table.update({
            at + "input_layernorm.weight": ones(HIDDEN),
            at + "post_attention_layernorm.weight": ones(HIDDEN),
            at + "self_attn.q_proj.weight": noise(QUERY_HEADS * HEAD, HIDDEN, std=.3),
            at + "self_attn.k_proj.weight": noise(KV_HEADS * HEAD, HIDDEN, std=.3),
            at + "self_attn.v_proj.weight": noise(KV_HEADS * HEAD, HIDDEN, std=.5),
            at + "self_attn.o_proj.weight": noise(HIDDEN, QUERY_HEADS * HEAD, std=.5),
            at + "self_attn.q_norm.weight": ones(HEAD),
            at + "self_attn.k_norm.weight": ones(HEAD),
            at + "mlp.gate_proj.weight": noise(INNER, HIDDEN, std=.2),
            at + "mlp.up_proj.weight": noise(INNER, HIDDEN, std=.2),
            at + "mlp.down_proj.weight": noise(HIDDEN, INNER, std=.2)})
    return table


def main():
    folder = pathlib.Path(sys.argv[1])
    save_file(weights(), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")


main()
