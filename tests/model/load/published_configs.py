"""Configurations with the keys that published models have, written by hand in tiny sizes, by a made-up name.

Each has an expectation: None where it loads, else what the refusal says, which names a key and a way on. OPTIONS are
what the refusals of some ask for.
"""

from __future__ import annotations

from typing import Any

_TOKENS = {"bos_token_id": 1, "eos_token_id": 2}
_SAVED = {
    "torch_dtype": "bfloat16",
    "transformers_version": "4.44.2",
    "use_cache": True,
    "initializer_range": 0.02,
}
_LIKE_LLAMA: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 24,
    "intermediate_size": 10,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 40,
    **_TOKENS,
    **_SAVED,
}
_ENCODER: dict[str, Any] = {
    "vocab_size": 11,
    "hidden_size": 24,
    "intermediate_size": 10,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "attention_probs_dropout_prob": 0.1,
    "hidden_dropout_prob": 0.1,
    **_SAVED,
}
_GPT2: dict[str, Any] = {
    "vocab_size": 11,
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 40,
    "layer_norm_epsilon": 1e-5,
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "resid_pdrop": 0.1,
    **_TOKENS,
    **_SAVED,
}
_LABELS = {
    "id2label": {"0": "no", "1": "yes"},
    "label2id": {"no": 0, "yes": 1},
    "problem_type": "single_label_classification",
}

_DEEPSEEK: dict[str, Any] = {
    **{key: value for key, value in _LIKE_LLAMA.items() if key != "num_key_value_heads"},
    "num_key_value_heads": 4, "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "ep_size": 1,
    "first_k_dense_replace": 1, "kv_lora_rank": 7, "moe_intermediate_size": 8, "moe_layer_freq": 1, "n_routed_experts": 6,
    "num_experts_per_tok": 2, "pretraining_tp": 1, "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 6,
    "rms_norm_eps": 1e-06, "rope_theta": 10000, "tie_word_embeddings": False,
    "rope_scaling": {
        "type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 10,
    },
}  # fmt: skip

PUBLISHED: dict[str, dict[str, Any]] = {
    "deepseek v2 lite": {
        **_DEEPSEEK, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "aux_loss_alpha": 0.001,
        "q_lora_rank": None, "n_shared_experts": 2, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
        "norm_topk_prob": False, "routed_scaling_factor": 1.0, "scoring_func": "softmax", "seq_aux": True,
        "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekV2ForCausalLM"},
    },
    "deepseek v2": {
        **_DEEPSEEK, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "aux_loss_alpha": 0.001,
        "q_lora_rank": 9, "n_shared_experts": 2, "n_group": 3, "topk_group": 2, "topk_method": "group_limited_greedy",
        "norm_topk_prob": False, "routed_scaling_factor": 16.0, "scoring_func": "softmax", "seq_aux": True,
    },
    "deepseek v3, in bfloat16": {
        **_DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": 9,
        "n_shared_experts": 1, "n_group": 3, "topk_group": 2, "topk_method": "noaux_tc", "norm_topk_prob": True,
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "num_nextn_predict_layers": 1,
    },
    "deepseek v3, as published": {
        **_DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": 9,
        "n_shared_experts": 1, "n_group": 3, "topk_group": 2, "topk_method": "noaux_tc", "norm_topk_prob": True,
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "num_nextn_predict_layers": 1,
        "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    },
    "moonlight": {
        **_DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": None,
        "n_shared_experts": 2, "n_group": 1, "topk_group": 1, "topk_method": "noaux_tc", "norm_topk_prob": True,
        "routed_scaling_factor": 2.446, "scoring_func": "sigmoid", "num_nextn_predict_layers": 0, "rope_scaling": None,
        "aux_loss_alpha": 0.001, "seq_aux": True, "rope_theta": 50000.0,
    },
    "gpt2, the first": {
        **_GPT2, "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "n_ctx": 40,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
    "gpt2, distilled": {
        **_GPT2, "model_type": "gpt2", "activation_function": "gelu_new", "n_ctx": 40, "_num_labels": 1, **_LABELS,
        "scale_attn_by_inverse_layer_idx": False, "reorder_and_upcast_attn": False, "scale_attn_weights": True,
    },
    "gpt2 for a browser": {
        **_GPT2, "model_type": "gpt2", "activation_function": "gelu_new", "n_inner": None,
        "transformers.js_config": {"dtype": "q8", "kv_cache_dtype": {"fp16": "float16"}},
    },
    "pythia": {
        **_ENCODER, "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu",
        "layer_norm_eps": 1e-5, "rotary_emb_base": 10000, "rotary_pct": 0.7, "use_parallel_residual": True,
        "tie_word_embeddings": False, **_TOKENS,
    },
    "gpt-j": {
        **_GPT2, "model_type": "gptj", "rotary": True, "rotary_dim": 4, "activation_function": "gelu_new",
        "gradient_checkpointing": False, "tokenizer_class": "GPT2Tokenizer", "tie_word_embeddings": False,
        "scale_attn_weights": True, "summary_type": "cls_index",
    },
    "bloom": {
        "model_type": "bloom", "vocab_size": 11, "n_embed": 24, "n_layer": 3, "num_attention_heads": 4, "seq_length": 40,
        "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0, "bias_dropout_fusion": True,
        "hidden_dropout": 0.0, "layer_norm_epsilon": 1e-5, "masked_softmax_fusion": True, "offset_alibi": 100,
        "pretraining_tp": 2, "skip_bias_add": True, "skip_bias_add_qkv": False, "slow_but_exact": False,
        "unk_token_id": 0, "pad_token_id": 3, **_TOKENS, **_SAVED,
    },
    "opt": {
        "model_type": "opt", "vocab_size": 11, "hidden_size": 24, "num_hidden_layers": 3, "ffn_dim": 10, "num_attention_heads": 4,
        "max_position_embeddings": 40, "word_embed_proj_dim": 24, "activation_dropout": 0.0, "activation_function": "relu",
        "attention_dropout": 0.0, "do_layer_norm_before": True, "dropout": 0.1, "init_std": 0.02, "layerdrop": 0.0,
        "prefix": "</s>", "_remove_final_layer_norm": False, **_TOKENS, **_SAVED,
    },
    "opt with norms behind": {
        "model_type": "opt", "vocab_size": 11, "hidden_size": 24, "num_hidden_layers": 3, "ffn_dim": 10, "num_attention_heads": 4,
        "max_position_embeddings": 40, "word_embed_proj_dim": 8, "activation_dropout": 0.0, "activation_function": "relu",
        "attention_dropout": 0.0, "do_layer_norm_before": False, "dropout": 0.1, "init_std": 0.02, "layerdrop": 0.0,
        "prefix": "</s>", **_TOKENS, **_SAVED,
    },
    "llama 2": {
        **_LIKE_LLAMA, "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "pretraining_tp": 1, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "attention_bias": False, "_name_or_path": "somewhere",
    },
    "llama 3.2": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "head_dim": 6, "mlp_bias": False,
        "rope_theta": 500000.0, "tie_word_embeddings": True, "eos_token_id": [2, 3, 4], "attention_dropout": 0.0,
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 20,
            "rope_type": "llama3",
        },
    },
    "llama with a dynamic base": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "rope_scaling": {"type": "dynamic", "factor": 2.0},
    },
    "smollm2": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "is_llama_config": True,
        "rope_interleaved": False, "rope_theta": 100000, "tie_word_embeddings": True, "mlp_bias": False,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}, "dtype": "q4"},
    },
    "llama, saved by unsloth": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "unsloth_fixed": True, "unsloth_version": "2024.9", "pad_token_id": 10,
        "_attn_implementation_autoset": True, "_attn_implementation": "sdpa",
    },
    "llama of version 5": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "dtype": "bfloat16",
        "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "head_dim": 6, "pad_token_id": None,
    },
    "mistral": {
        **_LIKE_LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "rope_theta": 1000000.0, "sliding_window": None, "head_dim": None, "tie_word_embeddings": False,
    },
    "qwen 2.5": {
        **_LIKE_LLAMA, "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
        "max_window_layers": 2, "sliding_window": 40, "use_sliding_window": False, "use_mrope": False,
        "tie_word_embeddings": True, "attention_dropout": 0.0,
    },
    "qwen 3": {
        **_LIKE_LLAMA, "model_type": "qwen3", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 1000000, "head_dim": 10,
        "max_window_layers": 3, "sliding_window": None, "use_sliding_window": False, "attention_bias": False,
        "rope_scaling": None, "layer_types": ["full_attention"] * 3, "tie_word_embeddings": True,
    },
    "gemma 2": {
        **_LIKE_LLAMA, "model_type": "gemma2", "head_dim": 10, "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        "query_pre_attn_scalar": 10, "sliding_window": 5, "cache_implementation": "hybrid", "rope_theta": 10000.0,
        "attention_bias": False, "pad_token_id": 0,
    },
    "gemma 3, text": {
        **_LIKE_LLAMA, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "head_dim": 10, "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": None, "final_logit_softcapping": None,
        "cache_implementation": "hybrid", "query_pre_attn_scalar": 10, "rope_local_base_freq": 10000, "rope_theta": 1000000,
        "rope_scaling": None, "sliding_window": 5, "sliding_window_pattern": 2, "attention_bias": False, "pad_token_id": 0,
    },
    "gemma 3 with images": {
        "model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 8, "eoi_token_index": 9,
        "image_token_index": 7, "mm_tokens_per_image": 4, "eos_token_id": [1, 10], "initializer_range": 0.02,
        "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "vision_config": {"hidden_size": 16, "image_size": 28, "model_type": "siglip_vision_model", "num_hidden_layers": 1},
        "text_config": {
            "model_type": "gemma3_text", "hidden_size": 24, "intermediate_size": 10, "num_hidden_layers": 3, "head_dim": 6,
            "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 11, "max_position_embeddings": 40,
            "sliding_window": 5, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rms_norm_eps": 1e-6,
            "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        },
    },
    "phi 2": {
        **_LIKE_LLAMA, "model_type": "phi", "architectures": ["PhiForCausalLM"], "embd_pdrop": 0.0, "resid_pdrop": 0.1,
        "hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.4, "qk_layernorm": False,
        "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
    },
    "phi 3, long": {
        **_LIKE_LLAMA, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "embd_pdrop": 0.0, "resid_pdrop": 0.0, "original_max_position_embeddings": 8, "rope_theta": 10000.0,
        "sliding_window": 262144, "attention_bias": False, "pad_token_id": 3,
        "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config", "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
        "rope_scaling": {"type": "longrope", "long_factor": [1.0, 2.5, 9.0], "short_factor": [1.0, 1.1, 1.2]},
    },
    "granite": {
        **_LIKE_LLAMA, "model_type": "granite", "attention_multiplier": 0.0078125, "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22, "logits_scaling": 8.0, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_scaling": None,
        "rope_theta": 10000.0, "mlp_bias": False, "pad_token_id": 0, "tie_word_embeddings": True,
    },
    "olmo": {
        **_LIKE_LLAMA, "model_type": "olmo", "clip_qkv": None, "hidden_act": "silu", "rope_scaling": None, "rope_theta": 10000.0,
        "attention_bias": False, "pad_token_id": 1, "tie_word_embeddings": False,
    },
    "olmo, clipped": {
        **_LIKE_LLAMA, "model_type": "olmo", "clip_qkv": 8.0, "hidden_act": "silu", "rope_theta": 10000.0,
    },
    "cohere": {
        **_LIKE_LLAMA, "model_type": "cohere", "architectures": ["CohereForCausalLM"], "hidden_act": "silu", "layer_norm_eps": 1e-5,
        "logit_scale": 0.0625, "model_max_length": 131072, "pad_token_id": 0, "pretraining_tp": 1, "rope_theta": 8000000.0,
        "use_qk_norm": False, "attention_bias": False,
    },
    "cohere 2": {
        **_LIKE_LLAMA, "model_type": "cohere2", "_sliding_window_pattern": 4, "cache_implementation": "hybrid", "head_dim": 6,
        "hidden_act": "silu", "layer_norm_eps": 1e-5, "layer_switch": 4, "logit_scale": 0.25,
        "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj", "rope_scaling": None,
        "rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 5, "sliding_window_pattern": 4,
        "use_embedding_sharing": True, "use_gated_activation": True, "use_parallel_block": True,
        "use_parallel_embedding": False, "attention_bias": False, "pad_token_id": 0,
    },
    "falcon 7b": {
        "model_type": "falcon", "architectures": ["FalconForCausalLM"], "alibi": False, "bias": False, "hidden_dropout": 0.0,
        "attention_dropout": 0.0, "hidden_size": 24, "layer_norm_epsilon": 1e-5, "multi_query": True,
        "new_decoder_architecture": False, "num_attention_heads": 4, "num_hidden_layers": 3, "parallel_attn": True,
        "vocab_size": 11, "apply_residual_connection_post_layernorm": False, **_TOKENS, **_SAVED,
        "auto_map": {"AutoConfig": "configuration_falcon.FalconConfig"},
    },
    "falcon rw": {
        "model_type": "falcon", "alibi": True, "bias": True, "hidden_size": 24, "layer_norm_epsilon": 1e-5, "activation": "gelu",
        "multi_query": False, "new_decoder_architecture": False, "num_attention_heads": 4, "num_hidden_layers": 3,
        "parallel_attn": False, "vocab_size": 11, **_TOKENS, **_SAVED,
    },
    "mpt": {
        "model_type": "mpt", "architectures": ["MPTForCausalLM"], "d_model": 24, "emb_pdrop": 0, "embedding_fraction": 1.0,
        "expansion_ratio": 4, "init_device": "cpu", "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 40,
        "n_heads": 4, "n_layers": 3, "no_bias": True, "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
        "tokenizer_name": "EleutherAI/gpt-neox-20b", "verbose": 0, "vocab_size": 11, **_SAVED,
        "init_config": {"name": "kaiming_normal_", "init_std": 0.02, "verbose": 0},
        "attn_config": {
            "alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
            "attn_uses_sequence_id": False, "clip_qkv": None, "prefix_lm": False, "qk_ln": False, "softmax_scale": None,
        },
    },
    "mpt, clipped": {
        "model_type": "mpt", "d_model": 24, "max_seq_len": 40, "n_heads": 4, "n_layers": 3, "no_bias": True, "vocab_size": 11,
        "attn_config": {"alibi": True, "alibi_bias_max": 16, "clip_qkv": 6}, "norm_type": "low_precision_layernorm",
    },
    "stablelm": {
        **_LIKE_LLAMA, "model_type": "stablelm", "hidden_act": "silu", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.4,
        "rope_theta": 10000, "use_qkv_bias": True, "qk_layernorm": False, "use_parallel_residual": False, "rope_scaling": None,
        "tie_word_embeddings": False, "attention_dropout": 0.0, "hidden_dropout": 0.0,
    },
    "starcoder": {
        **_GPT2, "model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"], "activation_function": "gelu",
        "attention_softmax_in_fp32": True, "scale_attention_softmax_in_fp32": True, "multi_query": True, "n_inner": 96,
        "inference_runner": 0, "max_batch_size": None, "max_sequence_length": None, "pad_key_length": True,
        "pre_allocate_kv_cache": False, "validate_runner_input": True, "summary_type": "cls_index", "scale_attn_weights": True,
    },
    "starcoder 2": {
        **_LIKE_LLAMA, "model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "norm_type": "layer_norm",
        "mlp_type": "default", "embedding_dropout": 0.1, "residual_dropout": 0.1, "attention_dropout": 0.1,
        "rope_theta": 999999.4420358813, "sliding_window": 5, "use_bias": True, "activation_function": "gelu",
    },
    "nemotron": {
        **_LIKE_LLAMA, "model_type": "nemotron", "architectures": ["NemotronForCausalLM"], "head_dim": 8, "hidden_act": "relu2",
        "norm_eps": 1e-5, "partial_rotary_factor": 0.5, "rope_theta": 10000, "kv_channels": 8, "tie_word_embeddings": False,
        "attention_bias": False, "mlp_bias": False, "rope_scaling": None,
    },
    "smollm 3": {
        **_LIKE_LLAMA, "model_type": "smollm3", "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 5000000.0,
        "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 0], "max_window_layers": 3, "pretraining_tp": 2,
        "layer_types": ["full_attention"] * 3, "use_sliding_window": False, "sliding_window": None, "mlp_bias": False,
        "pad_token_id": 4, "rope_scaling": None,
    },
    "bert": {
        **_ENCODER, "model_type": "bert", "architectures": ["BertForMaskedLM"], "gradient_checkpointing": False, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2,
    },
    "bert, cased, of another time": {
        **_ENCODER, "model_type": "bert", "architectures": ["BertForMaskedLM"], "directionality": "bidi", "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "type_vocab_size": 2,
    },
    "bert over classes": {
        **_ENCODER, "model_type": "bert", "architectures": ["BertForSequenceClassification"], **_LABELS, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "classifier_dropout": None, "type_vocab_size": 2, "_num_labels": 2, "output_past": True,
    },
    "roberta": {
        **_ENCODER, "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "hidden_act": "gelu", "layer_norm_eps": 1e-5,
        "pad_token_id": 1, "type_vocab_size": 1, "bos_token_id": 0, "eos_token_id": 2,
    },
    "distilbert over classes": {
        "model_type": "distilbert", "architectures": ["DistilBertForSequenceClassification"], "activation": "gelu",
        "attention_dropout": 0.1, "dim": 24, "dropout": 0.1, "finetuning_task": "sst-2", "hidden_dim": 10, "n_heads": 4,
        "n_layers": 3, "max_position_embeddings": 40, "output_past": True, "pad_token_id": 0, "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True, "vocab_size": 11, **_LABELS, **_SAVED,
    },
    "modernbert": {
        **_ENCODER, "model_type": "modernbert", "architectures": ["ModernBertForMaskedLM"], "attention_bias": False,
        "attention_dropout": 0.0, "classifier_activation": "gelu", "classifier_bias": False, "classifier_dropout": 0.0,
        "classifier_pooling": "mean", "cls_token_id": 1, "decoder_bias": True, "deterministic_flash_attn": False,
        "embedding_dropout": 0.0, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": False,
        "hidden_activation": "gelu", "initializer_cutoff_factor": 2.0, "layer_norm_eps": 1e-5, "local_attention": 6,
        "local_rope_theta": 10000.0, "mlp_bias": False, "mlp_dropout": 0.0, "norm_bias": False, "norm_eps": 1e-5,
        "position_embedding_type": "absolute", "reference_compile": None, "repad_logits_with_grad": False,
        "sep_token_id": 2, "sparse_pred_ignore_index": -100, "sparse_prediction": False, **_TOKENS,
    },
    "llama, quantized by gptq": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "quantization_config": {"bits": 4, "group_size": 128, "quant_method": "gptq", "desc_act": False},
    },
    "llama, quantized by bitsandbytes": {
        **_LIKE_LLAMA, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "quantization_config": {"load_in_4bit": True, "quant_method": "bitsandbytes", "bnb_4bit_quant_type": "nf4"},
    },
    "t5": {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 24, "d_kv": 6, "num_layers": 3,
        "vocab_size": 11, "is_encoder_decoder": True, "relative_attention_num_buckets": 32,
    },
    "mamba": {"model_type": "mamba", "hidden_size": 24, "state_size": 16, "num_hidden_layers": 3, "vocab_size": 11},
}  # fmt: skip

OPTIONS: dict[str, dict[str, Any]] = {
    "phi 3, long": {"ignore": ("auto_map",)},
    "falcon 7b": {"ignore": ("auto_map",)},
    "deepseek v2 lite": {"ignore": ("auto_map",)},
}
"""What the refusals of these ask for."""

REFUSED: dict[str, str] = {
    "olmo, clipped": "'clip_qkv' is 8.0: queries, keys and values that are clipped are no linear maps",
    "mpt, clipped": "'clip_qkv' is 6: queries, keys and values that are clipped are no linear maps",
    "llama, quantized by gptq": "'quantization_config'.*dequantize them to float16 or float32 first",
    "llama, quantized by bitsandbytes": "'quantization_config'.*dequantize them to float16 or float32 first",
    "deepseek v3, as published": "'quantization_config'.*dequantize them to float16 or float32 first",
    "t5": "'is_encoder_decoder' is True: encoder–decoder models have two streams",
    "mamba": "model_type 'mamba' is not known; known: bert, bloom",
}
"""What is said of those that do not load."""
