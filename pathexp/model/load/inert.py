"""Configuration keys that never change what a run without dropout computes."""

from __future__ import annotations

# fmt: off
INERT = frozenset((
    "model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path",
    "name_or_path", "use_cache", "initializer_range", "initializer_factor", "init_std", "use_bfloat16",
    "torchscript", "is_decoder", "attention_dropout", "attention_probs_dropout_prob", "attn_pdrop",
    "embd_pdrop", "resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "classifier_dropout",
    "embd_dropout", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
    "summary_first_dropout", "problem_type", "id2label", "label2id", "num_labels", "finetuning_task",
    "task_specific_params", "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id",
    "cls_token_id", "unk_token_id", "mask_token_id", "decoder_start_token_id", "forced_bos_token_id",
    "forced_eos_token_id", "prefix", "output_attentions", "output_hidden_states", "output_past",
    "return_dict", "return_dict_in_generate", "output_scores", "max_length", "min_length", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k",
    "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
    "remove_invalid_values", "tokenizer_class", "gradient_checkpointing", "chunk_size_feed_forward",
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "pretraining_tp", "reorder_and_upcast_attn",
    "cache_implementation", "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
    "tie_encoder_decoder", "unsloth_version", "unsloth_fixed", "use_flash_attn",
    "attention_probs_dropout", "embedding_dropout", "residual_dropout", "cross_attention_hidden_size", "tf_legacy_loss", "is_llama_config",
    "_num_labels", "transformers.js_config", "model_max_length",
))
# fmt: on
