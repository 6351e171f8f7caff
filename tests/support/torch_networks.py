"""Networks in torch with random weights: every one a module and its example inputs.

torch, torchvision and transformers are imported when a network is made. Images and sequences are
small; `REDUCED` says which networks have fewer layers, narrower ones or smaller tables than those
that are published, for the time of a check alone: they keep every kind of layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Made = tuple[Any, tuple[Any, ...]]
"""A module and its example inputs."""

REDUCED = dict.fromkeys(
    ("resnet50", "mobilenet_v2", "mobilenet_v3", "efficientnet_b0", "densenet121", "shufflenet",
     "regnet", "convnext_tiny", "swin_t", "vit_b_16", "deeplabv3", "segformer_b0", "squeezenet",
     "mnasnet", "googlenet"),
    "64 x 64 images",
) | {
    "whisper_encoder": "places of 2 seconds of sound in place of 30",
    "wav2vec2": "2 of 12 layers, 0.25 s of sound",
    "bert": "2 of 12 layers, 2,000 of 30,522 words",
    "gpt2": "2 of 12 layers, 2,000 of 50,257 words",
    "llama": "2 layers, 256 wide, 8 heads, 2 of keys, 2,000 words",
    "qwen": "2 layers, 256 wide, 8 heads, 2 of keys, 2,000 words",
    "clip_vision": "2 of 12 layers, 64 x 64 images",
    "distilbert": "2 of 6 layers, 2,000 of 30,522 words",
    "t5_encoder": "2 of 6 layers, 2,000 of 32,128 words",
    "yolov8n": "64 x 64 images; the architecture in torch, as published for 80 classes",
}  # fmt: skip


def made(name: str) -> Made:
    """The network of this name, its weights and statistics drawn from a fixed seed."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    module, inputs = NETWORKS[name]()
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.normal_(0, 0.1)
                part.running_var.uniform_(0.5, 1.5)
                part.weight.uniform_(0.8, 1.2)
                part.bias.normal_(0, 0.1)
        for name, numbers in module.named_parameters():  # what training begins with hides the rest
            if name.endswith("layer_scale"):
                numbers.uniform_(0.2, 1.0)
            elif numbers.ndim > 1 and not numbers.any():
                numbers.normal_(0, 0.02)
    return module.eval(), inputs


def _images(size: int = 64, batch: int = 1) -> Any:
    import torch

    return torch.randn(batch, 3, size, size)


def _vision(name: str, size: int = 64, **options: Any) -> Callable[[], Made]:
    """A classifier of torchvision."""

    def make() -> Made:
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **options), (_images(size),)

    return make


def _googlenet() -> Made:
    import torchvision

    module = torchvision.models.googlenet(weights=None, aux_logits=False, init_weights=False)
    return module, (_images(),)


def _deeplabv3() -> Made:
    import torchvision

    module = torchvision.models.segmentation.deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=21
    )
    return _of(module, "out"), (_images(),)


def _of(module: Any, *fields: str) -> Any:
    """A module that returns these fields of what another returns."""
    import torch

    class Fields(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: Any) -> Any:
            found = self.module(*inputs)
            chosen = [found[field] if isinstance(found, dict) else getattr(found, field)
                      for field in fields]  # fmt: skip
            return chosen[0] if len(chosen) == 1 else tuple(chosen)

    return Fields()


def _segformer() -> Made:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    module = SegformerForSemanticSegmentation(SegformerConfig(num_labels=20))
    return _of(module.eval(), "logits"), (_images(),)


def _yolov8n() -> Made:
    """Convolutions with SiLU, C2f, SPPF, two ways of merging, a head for 80 classes by boxes whose
    sides are distributions, at three scales.
    """
    from support.torch_modules import Yolo

    return Yolo(), (_images(),)


def _unet() -> Made:
    """Group normalisation, a transposed convolution up, attention in the middle, as denoisers."""
    import torch

    from support.torch_modules import Unet

    return Unet(), (_images(32), torch.tensor([7.0]))


def _whisper() -> Made:
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536,
        max_source_positions=100,
    )  # fmt: skip
    return _of(WhisperEncoder(config).eval(), "last_hidden_state"), (torch.randn(1, 80, 200),)


def _wav2vec2() -> Made:
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    module = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=2)).eval()
    return _of(module, "last_hidden_state"), (torch.randn(1, 4000),)


def _ids(length: int = 16, words: int = 2000) -> Any:
    import torch

    return torch.randint(0, words, (1, length))


def _bert() -> Made:
    import torch
    from transformers import BertConfig, BertModel

    module = BertModel(BertConfig(num_hidden_layers=2, vocab_size=2000)).eval()
    mask = torch.ones(1, 16, dtype=torch.int64)
    mask[:, 12:] = 0
    return _of(module, "last_hidden_state", "pooler_output"), (_ids(), mask)


def _language(family: str, model: str, **options: Any) -> Callable[[], Made]:
    """A language model of transformers that keeps no state."""

    def make() -> Made:
        import transformers

        config = getattr(transformers, f"{family}Config")(
            vocab_size=2000, use_cache=False, **options
        )
        return _of(getattr(transformers, model)(config).eval(), "logits"), (_ids(),)

    return make


def _clip() -> Made:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    module = CLIPVisionModel(CLIPVisionConfig(num_hidden_layers=2, image_size=64)).eval()
    return _of(module, "last_hidden_state", "pooler_output"), (_images(),)


def _distilbert() -> Made:
    from transformers import DistilBertConfig, DistilBertModel

    module = DistilBertModel(DistilBertConfig(n_layers=2, vocab_size=2000)).eval()
    return _of(module, "last_hidden_state"), (_ids(),)


def _t5() -> Made:
    """Encoder of T5: places by the distance of words, root mean squares."""
    from transformers import T5Config, T5EncoderModel

    module = T5EncoderModel(T5Config(num_layers=2, vocab_size=2000)).eval()
    return _of(module, "last_hidden_state"), (_ids(),)


def _tagger(kind: str) -> Callable[[], Made]:
    """A recurrence in both directions and a linear layer."""

    def make() -> Made:
        import torch

        class Tagger(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                recurrence = getattr(torch.nn, kind)
                self.recurrence = recurrence(
                    24, 32, num_layers=2, bidirectional=True, batch_first=True
                )
                self.linear = torch.nn.Linear(64, 10)

            def forward(self, x: Any) -> Any:
                return self.linear(self.recurrence(x)[0])

        return Tagger(), (torch.randn(2, 12, 24),)

    return make


_SMALL = {
    "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2,
}  # fmt: skip

NETWORKS: dict[str, Callable[[], Made]] = {
    "resnet50": _vision("resnet50"),
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3": _vision("mobilenet_v3_small"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "densenet121": _vision("densenet121"),
    "shufflenet": _vision("shufflenet_v2_x1_0"),
    "regnet": _vision("regnet_y_400mf"),
    "convnext_tiny": _vision("convnext_tiny"),
    "swin_t": _vision("swin_t"),
    "vit_b_16": _vision("vit_b_16", image_size=64),
    "deeplabv3": _deeplabv3,
    "segformer_b0": _segformer,
    "yolov8n": _yolov8n,
    "unet": _unet,
    "whisper_encoder": _whisper,
    "wav2vec2": _wav2vec2,
    "bert": _bert,
    "gpt2": _language("GPT2", "GPT2LMHeadModel", n_layer=2),
    "llama": _language("Llama", "LlamaForCausalLM", **_SMALL),
    "qwen": _language("Qwen2", "Qwen2ForCausalLM", **_SMALL),
    "clip_vision": _clip,
    "lstm": _tagger("LSTM"),
    "gru": _tagger("GRU"),
    "distilbert": _distilbert,
    "t5_encoder": _t5,
    "squeezenet": _vision("squeezenet1_1"),
    "mnasnet": _vision("mnasnet1_0"),
    "googlenet": _googlenet,
}
