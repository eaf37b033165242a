"""Hugging Face configurations of many families, tiny: a task and what the configuration says beside its model_type."""
TOKENS = dict(vocab_size=97, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LAYERS = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4, num_hidden_layers=2)
TEXT = dict(**LAYERS, **TOKENS)
GQA = dict(num_key_value_heads=2, **TEXT)
GPT = dict(n_embd=32, n_layer=2, n_head=4, n_positions=32, **TOKENS)
ENCODER = dict(vocab_size=97, max_position_embeddings=32, **LAYERS)
IMAGE = dict(image_size=32, num_labels=10)
WINDOWS = dict(head_dim=8, sliding_window=5)

FAMILIES = {
    "gpt2": ("causal-lm", GPT),
    "llama": ("causal-lm", GQA),
    "mistral": ("causal-lm", dict(**WINDOWS, **GQA)),
    "qwen2": ("causal-lm", GQA),
    "qwen3": ("causal-lm", dict(head_dim=8, **GQA)),
    "gemma": ("causal-lm", dict(num_key_value_heads=1, head_dim=8, **TEXT)),
    "gemma2": ("causal-lm", dict(**WINDOWS, **GQA)),
    "phi": ("causal-lm", TEXT),
    "phi3": ("causal-lm", GQA),
    "gpt_neox": ("causal-lm", TEXT),
    "gptj": ("causal-lm", dict(rotary_dim=4, **GPT)),
    "gpt_neo": ("causal-lm", dict(hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=6,
                                  **TOKENS)),
    "opt": ("causal-lm", dict(hidden_size=32, ffn_dim=48, num_attention_heads=4, num_hidden_layers=2, word_embed_proj_dim=32,
                              max_position_embeddings=32, **TOKENS)),
    "bloom": ("causal-lm", dict(hidden_size=32, n_layer=2, n_head=4, **TOKENS)),
    "falcon": ("causal-lm", dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **TOKENS)),
    "mpt": ("causal-lm", dict(d_model=32, n_heads=4, n_layers=2, **TOKENS)),
    "stablelm": ("causal-lm", GQA),
    "olmo": ("causal-lm", TEXT),
    "cohere": ("causal-lm", GQA),
    "granite": ("causal-lm", GQA),
    "mamba": ("causal-lm", dict(hidden_size=32, num_hidden_layers=2, state_size=4, **TOKENS)),
    "mixtral": ("causal-lm", dict(num_local_experts=4, num_experts_per_tok=2, **GQA)),
    "qwen2_moe": ("causal-lm", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=24,
                                    **GQA)),
    "bert": ("masked-lm", ENCODER),
    "roberta": ("masked-lm", dict(pad_token_id=0, **ENCODER)),
    "distilbert": ("masked-lm", dict(vocab_size=97, dim=32, hidden_dim=48, n_heads=4, n_layers=2, max_position_embeddings=32)),
    "electra": ("masked-lm", dict(embedding_size=24, **ENCODER)),
    "albert": ("masked-lm", dict(embedding_size=24, **ENCODER)),
    "modernbert": ("masked-lm", dict(max_position_embeddings=64, **TEXT)),
    "deberta-v2": ("token-classification", dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, **ENCODER)),
    "xlnet": ("token-classification", dict(d_model=32, n_layer=2, n_head=4, d_inner=48, vocab_size=97)),
    "t5": ("seq2seq", dict(vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)),
    "bart": ("seq2seq", dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                             encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32, decoder_start_token_id=2, **TOKENS)),
    "vit": ("image-classification", dict(patch_size=8, **IMAGE, **LAYERS)),
    "deit": ("image-classification", dict(patch_size=8, **IMAGE, **LAYERS)),
    "swin": ("image-classification", dict(patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, drop_path_rate=0.0,
                                          **IMAGE)),
    "resnet": ("image-classification", dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10)),
    "convnext": ("image-classification", dict(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, **IMAGE)),
}
QUICK = ("gpt2", "llama", "mixtral", "bert", "roberta", "t5", "mamba", "swin", "resnet", "convnext")
