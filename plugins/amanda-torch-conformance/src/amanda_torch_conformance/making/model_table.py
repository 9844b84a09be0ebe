"""Models of `transformers`: a row each, with small sizes and the kind of its inputs.

    Model("bert", "BertModel", "text", LAYERS)

The class of a model names its configuration. Inputs are functions of `model_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["MODELS", "Model"]


class Model(NamedTuple):
    """An architecture with random weights."""

    name: str
    cls: str
    """The name of the class in `transformers`."""
    inputs: str
    """The kind of its inputs: a key of `INPUTS` in `model_inputs`."""
    sizes: Mapping[str, Any]
    """Arguments of its configuration."""
    axes: str = "batch length"
    """The axes that are dynamic, where the inputs have them."""
    spread: float = 0.02
    """The standard deviation of what is added to initial weights: a selection, as of
    the best queries, needs scores that differ by more than rounding."""


LAYERS: Final[dict[str, Any]] = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
ENCODER: Final[dict[str, Any]] = {**LAYERS, "pad_token_id": 0}
DECODER: Final[dict[str, Any]] = {
    **LAYERS, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED: Final[dict[str, Any]] = {**DECODER, "num_key_value_heads": 2, "head_dim": 8}
CACHED: Final[dict[str, Any]] = {**DECODER, "use_cache": True}
GROUPED_CACHED: Final[dict[str, Any]] = {**GROUPED, "use_cache": True}
SEQ2SEQ: Final[dict[str, Any]] = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "max_position_embeddings": 64, "use_cache": False,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip
T5: Final[dict[str, Any]] = {
    "vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
    "num_heads": 4, "use_cache": False, "decoder_start_token_id": 0,
    "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
VISION: Final[dict[str, Any]] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "image_size": 32, "patch_size": 8,
}  # fmt: skip
_CONV: Final[dict[str, Any]] = {
    "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2),
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
SPEECH: Final[dict[str, Any]] = {**ENCODER, **_CONV, "num_feat_extract_layers": 3}
_SWIN: Final[dict[str, Any]] = {
    "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": (1, 2),
    "num_heads": (2, 4), "window_size": 4,
}  # fmt: skip
_RESNET: Final[dict[str, Any]] = {
    "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1],
    "layer_type": "basic",
}  # fmt: skip
_BACKBONE: Final[dict[str, Any]] = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 16, 32],
    "depths": [1, 1, 1, 1], "layer_type": "basic",
}  # fmt: skip
_DETECTOR: Final[dict[str, Any]] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 6, "num_labels": 5,
}  # fmt: skip
_EXPERTS: Final[dict[str, Any]] = {
    "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}  # fmt: skip
_LATENT: Final[dict[str, Any]] = {
    **DECODER, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "first_k_dense_replace": 1, "n_group": 2,
    "topk_group": 1,
}  # fmt: skip

TEXT_ENCODERS: Final = (
    Model("bert", "BertModel", "text", ENCODER),
    Model("roberta", "RobertaModel", "text", ENCODER),
    Model("xlm-roberta", "XLMRobertaModel", "text", ENCODER),
    Model("camembert", "CamembertForMaskedLM", "text", ENCODER),
    Model(
        "distilbert", "DistilBertModel", "text",
        {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    ),
    Model("albert", "AlbertModel", "text", {**ENCODER, "embedding_size": 16}),
    Model("electra", "ElectraModel", "text", {**ENCODER, "embedding_size": 16}),
    Model("deberta", "DebertaModel", "text", {
        **ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 16,
    }),
    Model("deberta-v2", "DebertaV2Model", "text", {
        **ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    }),
    Model("mpnet", "MPNetModel", "text", ENCODER),
    Model("xlnet", "XLNetModel", "text", {
        "vocab_size": 99, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64,
    }),
    Model("longformer", "LongformerModel", "text", {**ENCODER, "attention_window": 4}),
    Model("big-bird", "BigBirdModel", "text", {
        **ENCODER, "attention_type": "original_full",
    }),
    Model("fnet", "FNetModel", "ids", ENCODER),
    Model("convbert", "ConvBertModel", "text", {
        **ENCODER, "embedding_size": 32, "head_ratio": 2,
    }),
    Model("modernbert", "ModernBertModel", "text", {
        **DECODER, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 4,
        "global_attn_every_n_layers": 2,
    }),
    Model("mobilebert", "MobileBertModel", "text", {
        **ENCODER, "embedding_size": 32, "intra_bottleneck_size": 32,
        "true_hidden_size": 32,
    }),
    Model("squeezebert", "SqueezeBertModel", "text", {**ENCODER, "embedding_size": 32}),
    Model("funnel", "FunnelModel", "text", {
        "vocab_size": 99, "block_sizes": [1, 1], "d_model": 32, "n_head": 4,
        "d_head": 8, "d_inner": 64, "num_decoder_layers": 1,
    }),
    Model("rembert", "RemBertModel", "text", {
        **ENCODER, "input_embedding_size": 16, "output_embedding_size": 24,
    }),
    Model("roformer", "RoFormerModel", "text", ENCODER),
    Model("esm", "EsmModel", "text", {
        **ENCODER, "position_embedding_type": "rotary", "mask_token_id": 3,
    }),
    Model("canine", "CanineModel", "text", {**ENCODER, "local_transformer_stride": 8},
          "batch"),
    Model("nomic-bert", "NomicBertModel", "text", ENCODER),
    Model("ernie", "ErnieModel", "text", ENCODER),
)  # fmt: skip

DECODERS: Final = (
    Model("gpt", "OpenAIGPTLMHeadModel", "text", {
        "vocab_size": 99, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
    }),
    Model("gpt2", "GPT2LMHeadModel", "text", DECODER),
    Model("gpt-neo", "GPTNeoForCausalLM", "text", {
        **{k: v for k, v in DECODER.items() if k != "num_hidden_layers"},
        "num_layers": 2, "attention_types": [[["global", "local"], 1]],
        "window_size": 4,
    }),
    Model("gptj", "GPTJForCausalLM", "text", {**DECODER, "rotary_dim": 4}),
    Model("gpt-neox", "GPTNeoXForCausalLM", "text", DECODER),
    Model("gpt-bigcode", "GPTBigCodeForCausalLM", "text", DECODER),
    Model("opt", "OPTForCausalLM", "text", {
        **DECODER, "ffn_dim": 64, "word_embed_proj_dim": 32,
    }),
    Model("bloom", "BloomForCausalLM", "text", DECODER),
    Model("llama", "LlamaForCausalLM", "text", GROUPED),
    Model("mistral", "MistralForCausalLM", "text", {**GROUPED, "sliding_window": 4}),
    Model("qwen2", "Qwen2ForCausalLM", "text", GROUPED),
    Model("qwen3", "Qwen3ForCausalLM", "text", GROUPED),
    Model("gemma", "GemmaForCausalLM", "text", GROUPED),
    Model("gemma2", "Gemma2ForCausalLM", "text", {
        **GROUPED, "query_pre_attn_scalar": 8, "sliding_window": 4,
    }),
    Model("gemma3", "Gemma3ForCausalLM", "text", {
        **GROUPED, "query_pre_attn_scalar": 8, "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    }),
    Model("phi", "PhiForCausalLM", "text", DECODER),
    Model("phi3", "Phi3ForCausalLM", "text", {**DECODER, "num_key_value_heads": 2}),
    Model("stablelm", "StableLmForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2,
    }),
    Model("falcon", "FalconForCausalLM", "text", {
        **DECODER, "new_decoder_architecture": True, "num_kv_heads": 2,
    }),
    Model("falcon-alibi", "FalconForCausalLM", "text", {**DECODER, "alibi": True}),
    Model("mpt", "MptForCausalLM", "text", {
        "vocab_size": 99, "d_model": 32, "n_heads": 4, "n_layers": 2,
        "expansion_ratio": 2, "max_seq_len": 64, "use_cache": False,
    }),
    Model("codegen", "CodeGenForCausalLM", "text", {
        **DECODER, "rotary_dim": 4, "n_ctx": 64,
    }),
    Model("cohere", "CohereForCausalLM", "text", GROUPED),
    Model("cohere2", "Cohere2ForCausalLM", "text", {**GROUPED, "sliding_window": 4}),
    Model("olmo", "OlmoForCausalLM", "text", {**DECODER, "num_key_value_heads": 2}),
    Model("olmo2", "Olmo2ForCausalLM", "text", {**DECODER, "num_key_value_heads": 2}),
    Model("granite", "GraniteForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, "embedding_multiplier": 2.0,
    }),
    Model("starcoder2", "Starcoder2ForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2,
    }),
    Model("persimmon", "PersimmonForCausalLM", "text", DECODER),
    Model("biogpt", "BioGptForCausalLM", "text", DECODER),
    Model("xglm", "XGLMForCausalLM", "text", {
        **DECODER, "d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4,
    }),
    Model("glm", "GlmForCausalLM", "text", GROUPED),
    Model("smollm3", "SmolLM3ForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2,
    }),
)  # fmt: skip

EXPERTS: Final = (
    Model("mixtral", "MixtralForCausalLM", "text", {**GROUPED, **_EXPERTS}),
    Model("qwen2-moe", "Qwen2MoeForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, **_EXPERTS,
        "shared_expert_intermediate_size": 16,
    }),
    Model("qwen3-moe", "Qwen3MoeForCausalLM", "text", {**GROUPED, **_EXPERTS}),
    Model("olmoe", "OlmoeForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, **_EXPERTS,
    }),
    Model("granitemoe", "GraniteMoeForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, **_EXPERTS,
    }),
    Model("phimoe", "PhimoeForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, **_EXPERTS,
    }),
    Model("deepseek-v2", "DeepseekV2ForCausalLM", "text", _LATENT),
    Model("deepseek-v3", "DeepseekV3ForCausalLM", "text", _LATENT),
    Model("gpt-oss", "GptOssForCausalLM", "text", {
        **GROUPED, **_EXPERTS, "sliding_window": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    }),
    Model("switch-transformers", "SwitchTransformersModel", "seq2seq", {
        **T5, "num_experts": 4, "num_sparse_encoder_layers": 1,
        "num_sparse_decoder_layers": 1, "expert_capacity": 8,
    }),
)  # fmt: skip

CACHES: Final = (
    Model("gpt2-cache", "GPT2LMHeadModel", "cache", CACHED),
    Model("gpt-neox-cache", "GPTNeoXForCausalLM", "cache", CACHED),
    Model("llama-cache", "LlamaForCausalLM", "cache", GROUPED_CACHED),
    Model("qwen2-cache", "Qwen2ForCausalLM", "cache", GROUPED_CACHED),
    Model("qwen3-cache", "Qwen3ForCausalLM", "cache", GROUPED_CACHED),
    Model("gemma-cache", "GemmaForCausalLM", "cache", GROUPED_CACHED),
    Model("phi-cache", "PhiForCausalLM", "cache", CACHED),
    Model("mixtral-cache", "MixtralForCausalLM", "cache", {
        **GROUPED_CACHED, **_EXPERTS,
    }),
)  # fmt: skip

RECURRENT: Final = (
    Model("mamba", "MambaForCausalLM", "ids", {
        **DECODER, "state_size": 8, "expand": 2, "conv_kernel": 4,
    }),
    Model("mamba2", "Mamba2ForCausalLM", "ids", {
        **DECODER, "state_size": 8, "expand": 2, "num_heads": 8, "head_dim": 8,
        "n_groups": 2, "chunk_size": 4,
    }),
    Model("falcon-mamba", "FalconMambaForCausalLM", "ids", {
        **DECODER, "state_size": 8,
    }),
    Model("rwkv", "RwkvForCausalLM", "ids", {
        **DECODER, "attention_hidden_size": 32, "context_length": 64,
    }, "batch"),
    Model("jamba", "JambaForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, "num_experts": 2, "mamba_d_state": 8,
        "mamba_dt_rank": 4, "use_mamba_kernels": False, "attn_layer_period": 2,
        "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
    }),
    Model("recurrent-gemma", "RecurrentGemmaForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, "lru_width": 32, "num_hidden_layers": 3,
        "attention_window_size": 16,
    }),
    Model("zamba", "ZambaForCausalLM", "text", {
        **DECODER, "attention_hidden_size": 64, "num_key_value_heads": 4,
        "num_hidden_layers": 4, "layer_types": ["mamba", "hybrid"] * 2,
        "mamba_d_state": 8, "mamba_dt_rank": 4, "n_mamba_heads": 2,
    }),
    Model("bamba", "BambaForCausalLM", "text", {
        **DECODER, "num_key_value_heads": 2, "mamba_n_heads": 8, "mamba_d_head": 8,
        "mamba_d_state": 8, "mamba_n_groups": 2, "mamba_chunk_size": 4,
        "attn_layer_indices": [1],
    }),
)  # fmt: skip

SEQ2SEQS: Final = (
    Model("t5", "T5Model", "seq2seq", T5),
    Model("mt5", "MT5Model", "seq2seq", T5),
    Model("umt5", "UMT5Model", "seq2seq", T5),
    Model("bart", "BartModel", "seq2seq", SEQ2SEQ),
    Model("mbart", "MBartModel", "seq2seq", SEQ2SEQ),
    Model("pegasus", "PegasusModel", "seq2seq", SEQ2SEQ),
    Model("marian", "MarianMTModel", "seq2seq", SEQ2SEQ),
    Model("m2m-100", "M2M100Model", "seq2seq", SEQ2SEQ),
    Model("blenderbot", "BlenderbotModel", "seq2seq", SEQ2SEQ),
    Model("led", "LEDModel", "seq2seq", {
        **SEQ2SEQ, "attention_window": 4, "max_encoder_position_embeddings": 64,
        "max_decoder_position_embeddings": 64,
    }),
    Model("prophetnet", "ProphetNetModel", "seq2seq", {
        "vocab_size": 99, "hidden_size": 32, "num_encoder_layers": 2,
        "num_decoder_layers": 2, "num_encoder_attention_heads": 4,
        "num_decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "max_position_embeddings": 64, "ngram": 2,
        "num_buckets": 8, "use_cache": False, "pad_token_id": 0,
    }),
    Model("fsmt", "FSMTModel", "seq2seq", {
        **SEQ2SEQ, "langs": ["en", "de"], "src_vocab_size": 99, "tgt_vocab_size": 99,
    }),
)  # fmt: skip

IMAGES: Final = (
    Model("vit", "ViTModel", "image", VISION),
    Model("deit", "DeiTModel", "image", VISION),
    Model("beit", "BeitModel", "image", {
        **VISION, "use_relative_position_bias": True, "vocab_size": 99,
    }),
    Model("swin", "SwinModel", "image", _SWIN),
    Model("swinv2", "Swinv2Model", "image", _SWIN),
    Model("convnext", "ConvNextModel", "image", {
        "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
    }),
    Model("convnextv2", "ConvNextV2Model", "image", {
        "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
    }),
    Model("resnet", "ResNetModel", "image", _RESNET),
    Model("regnet", "RegNetModel", "image", {
        "embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2],
        "groups_width": 8,
    }),
    Model("mobilenet-v1", "MobileNetV1Model", "image", {"depth_multiplier": 0.25}),
    Model("mobilenet-v2", "MobileNetV2Model", "image", {"depth_multiplier": 0.25}),
    Model("mobilevit", "MobileViTModel", "image", {
        "image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": 2,
        "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 32],
    }),
    Model("mobilevitv2", "MobileViTV2Model", "image", {
        "image_size": 64, "width_multiplier": 0.25,
    }),
    Model("efficientnet", "EfficientNetModel", "image", {
        "image_size": 64, "width_coefficient": 0.25, "depth_coefficient": 0.25,
        "hidden_dim": 320,
    }),
    Model("segformer", "SegformerForSemanticSegmentation", "image", {
        "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
        "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16,
        "image_size": 64,
    }),
    Model("dpt", "DPTForDepthEstimation", "image", {
        **VISION, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 16,
        "is_hybrid": False,
    }),
    Model("pvt", "PvtModel", "image", {
        "image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
        "num_attention_heads": [1, 2, 2, 4],
    }),
    Model("pvt-v2", "PvtV2Model", "image", {
        "image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
        "num_attention_heads": [1, 2, 2, 4],
    }),
    Model("dinov2", "Dinov2Model", "image", VISION),
    Model("vit-mae", "ViTMAEModel", "image_noise", {**VISION, "mask_ratio": 0.5}),
    Model("vit-msn", "ViTMSNModel", "image", VISION),
    Model("levit", "LevitModel", "image", {
        "image_size": 64, "hidden_sizes": [16, 24, 32],
        "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1], "key_dim": [8, 8, 8],
        "down_ops": [["Subsample", 8, 2, 4, 2, 2], ["Subsample", 8, 3, 4, 2, 2]],
    }),
    Model("cvt", "CvtModel", "image", {
        "embed_dim": [16, 16, 32], "num_heads": [1, 2, 4], "depth": [1, 2, 3],
    }),
    Model("poolformer", "PoolFormerModel", "image", {
        "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1],
    }),
    Model("focalnet", "FocalNetModel", "image", {
        "image_size": 32, "embed_dim": 16, "depths": [1, 1],
        "hidden_sizes": [16, 32], "focal_levels": [2, 2], "focal_windows": [3, 3],
    }),
    Model("hiera", "HieraModel", "image", {
        "image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 1, 1],
        "num_heads": [1, 2, 2, 4], "masked_unit_size": [8, 8],
    }),
    Model("bit", "BitModel", "image", {
        "embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1],
        "num_groups": 4,
    }),
    Model("glpn", "GLPNForDepthEstimation", "image", {
        "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
        "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16,
        "image_size": 64,
    }),
    Model("timesformer", "TimesformerModel", "video", {**VISION, "num_frames": 2}),
    Model("videomae", "VideoMAEModel", "video", {**VISION, "num_frames": 2}),
    Model("vivit", "VivitModel", "video", {
        **VISION, "num_frames": 2, "tubelet_size": [2, 8, 8],
    }),
    Model("sam-vision", "SamVisionModel", "image", {
        **VISION, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1],
        "mlp_dim": 64,
    }),
)  # fmt: skip

DETECTORS: Final = (
    Model("detr", "DetrForObjectDetection", "image", {
        **_DETECTOR, "backbone_config": {**_BACKBONE, "out_features": ["stage4"]},
    }),
    Model("conditional-detr", "ConditionalDetrForObjectDetection", "image", {
        **_DETECTOR, "backbone_config": {**_BACKBONE, "out_features": ["stage4"]},
    }),
    Model("deformable-detr", "DeformableDetrForObjectDetection", "image", {
        **_DETECTOR, "num_feature_levels": 3, "backbone_config": {
            **_BACKBONE, "out_features": ["stage2", "stage3", "stage4"],
        },
    }),
    Model("rt-detr", "RTDetrForObjectDetection", "image", {
        **_DETECTOR, "encoder_hidden_dim": 32, "encoder_layers": 1, "num_denoising": 0,
        "encoder_in_channels": [16, 16, 32], "decoder_in_channels": [32, 32, 32],
        "anchor_image_size": None, "hidden_expansion": 0.5, "backbone_config": {
            "model_type": "rt_detr_resnet", "embedding_size": 8,
            "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1],
            "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"],
        },
    }, "batch", 0.2),
    Model("yolos", "YolosForObjectDetection", "image", {
        **VISION, "image_size": [32, 32], "num_detection_tokens": 5,
    }),
    Model("mask2former", "Mask2FormerForUniversalSegmentation", "image", {
        "feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32,
        "encoder_feedforward_dim": 32, "dim_feedforward": 32, "encoder_layers": 1,
        "decoder_layers": 2, "num_attention_heads": 2, "num_queries": 5,
        "backbone_config": {
            "model_type": "swin", "image_size": 64, "embed_dim": 8,
            "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 2,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    }),
    Model("maskformer", "MaskFormerForInstanceSegmentation", "image", {
        "fpn_feature_size": 32, "mask_feature_size": 32, "decoder_config": {
            "model_type": "detr", **_DETECTOR,
        }, "backbone_config": {
            "model_type": "swin", "image_size": 64, "embed_dim": 8,
            "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 2,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        },
    }),
    Model("upernet", "UperNetForSemanticSegmentation", "image", {
        "backbone_config": {
            "model_type": "convnext", "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 32],
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        }, "hidden_size": 16, "auxiliary_in_channels": 16, "auxiliary_channels": 16,
    }),
)  # fmt: skip

_CLIP_TEXT: Final = {**ENCODER, "projection_dim": 16, "eos_token_id": 2}
_CLIP_VISION: Final = {**VISION, "projection_dim": 16}
PAIRS: Final = (
    Model("clip", "CLIPModel", "text_image", {
        "text_config": _CLIP_TEXT, "vision_config": _CLIP_VISION, "projection_dim": 16,
    }),
    Model("siglip", "SiglipModel", "ids_image", {
        "text_config": {**ENCODER, "projection_size": 32}, "vision_config": VISION,
    }),
    Model("chinese-clip", "ChineseCLIPModel", "text_image", {
        "text_config": ENCODER, "vision_config": _CLIP_VISION, "projection_dim": 16,
    }),
    Model("blip-text", "BlipTextModel", "text", {
        **ENCODER, "is_decoder": False, "encoder_hidden_size": 32,
        "use_cache": False,
    }),
    Model("owlvit", "OwlViTForObjectDetection", "queries_image", {
        "text_config": _CLIP_TEXT, "vision_config": _CLIP_VISION, "projection_dim": 32,
    }),
    Model("vilt", "ViltModel", "text_image", {**ENCODER, **VISION}, "batch"),
    Model("layoutlm", "LayoutLMModel", "text_boxes", {
        **ENCODER, "max_2d_position_embeddings": 64,
    }),
    Model("layoutlmv3", "LayoutLMv3Model", "text_boxes", {
        **ENCODER, "max_2d_position_embeddings": 64, "coordinate_size": 6,
        "shape_size": 4, "visual_embed": False, "rel_pos_bins": 8,
        "rel_2d_pos_bins": 8,
    }),
    Model("visual-bert", "VisualBertModel", "text", ENCODER),
)  # fmt: skip

AUDIO: Final = (
    Model("wav2vec2", "Wav2Vec2Model", "waveform", SPEECH),
    Model("wav2vec2-conformer", "Wav2Vec2ConformerModel", "waveform", {
        **SPEECH, "position_embeddings_type": "relative",
        "max_source_positions": 128,
    }),
    Model("hubert", "HubertModel", "waveform", SPEECH),
    Model("wavlm", "WavLMModel", "waveform", {
        **SPEECH, "num_buckets": 16, "max_bucket_distance": 32,
    }),
    Model("data2vec-audio", "Data2VecAudioModel", "waveform", {
        **SPEECH, "conv_pos_kernel_size": 3, "num_conv_pos_embeddings": 2,
    }),
    Model("sew", "SEWModel", "waveform", {**SPEECH, "squeeze_factor": 2}, "batch"),
    Model("unispeech", "UniSpeechModel", "waveform", SPEECH),
    Model("whisper", "WhisperModel", "spectrogram", {
        **SEQ2SEQ, "num_mel_bins": 8, "max_source_positions": 16,
        "max_target_positions": 32, "suppress_tokens": None,
        "begin_suppress_tokens": None,
    }),
    Model("speech-to-text", "Speech2TextModel", "frames", {
        **SEQ2SEQ, "input_feat_per_channel": 8, "max_source_positions": 64,
        "max_target_positions": 32, "conv_channels": 32,
    }),
    Model("speecht5", "SpeechT5ForSpeechToText", "waveform_ids", {
        **SPEECH, **SEQ2SEQ, "hidden_size": 32, "feat_extract_norm": "group",
        "max_speech_positions": 64, "max_text_positions": 64,
        "encoder_max_relative_position": 8,
    }),
    Model("ast", "ASTModel", "mel", {
        **VISION, "max_length": 32, "num_mel_bins": 16,
    }),
    Model("encodec", "EncodecModel", "codec", {
        "audio_channels": 1, "num_filters": 4, "hidden_size": 8, "codebook_size": 16,
        "codebook_dim": 8, "num_lstm_layers": 1, "upsampling_ratios": [4, 2],
        "target_bandwidths": [3.0], "sampling_rate": 2400, "norm_type": "weight_norm",
    }, "batch"),
    Model("time-series", "TimeSeriesTransformerModel", "series", {
        "prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2],
        "num_time_features": 1, "d_model": 32, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "use_cache": False,
    }, "batch"),
    Model("patchtst", "PatchTSTModel", "channels", {
        "num_input_channels": 2, "context_length": 16, "patch_length": 4,
        "patch_stride": 4, "d_model": 32, "num_attention_heads": 4, "ffn_dim": 64,
        "num_hidden_layers": 2, "scaling": "std",
    }, "batch"),
)  # fmt: skip

MODELS: Final = (
    *TEXT_ENCODERS, *DECODERS, *EXPERTS, *CACHES, *RECURRENT, *SEQ2SEQS, *IMAGES,
    *DETECTORS, *PAIRS, *AUDIO,
)  # fmt: skip
"""All models."""
