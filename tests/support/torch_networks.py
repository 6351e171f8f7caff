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

REDUCED = {
    "whisper_encoder": "places of 2 seconds of sound in place of 30",
    "wav2vec2": "2 of 12 layers, 0.25 s of sound",
    "bert": "2 of 12 layers, 2,000 of 30,522 words",
    "gpt2": "2 of 12 layers, 2,000 of 50,257 words",
    "llama": "2 layers, 256 wide, 8 heads, 2 of keys, 2,000 words",
    "qwen": "2 layers, 256 wide, 8 heads, 2 of keys, 2,000 words",
    "clip_vision": "2 of 12 layers",
    "yolov8n": "the architecture in torch, as published for 80 classes",
}


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
    import torch
    from torch import nn

    class Conv(nn.Module):
        def __init__(self, c1: int, c2: int, k: int = 1, s: int = 1) -> None:
            super().__init__()
            self.conv = nn.Conv2d(c1, c2, k, s, k // 2, bias=False)
            self.bn = nn.BatchNorm2d(c2, eps=1e-3)

        def forward(self, x: Any) -> Any:
            return nn.functional.silu(self.bn(self.conv(x)))

    class Bottleneck(nn.Module):
        def __init__(self, c: int, add: bool) -> None:
            super().__init__()
            self.parts, self.add = nn.Sequential(Conv(c, c, 3), Conv(c, c, 3)), add

        def forward(self, x: Any) -> Any:
            return x + self.parts(x) if self.add else self.parts(x)

    class C2f(nn.Module):
        def __init__(self, c1: int, c2: int, n: int = 1, add: bool = False) -> None:
            super().__init__()
            self.first, self.last = Conv(c1, c2), Conv((2 + n) * c2 // 2, c2)
            self.inner = nn.ModuleList(Bottleneck(c2 // 2, add) for _ in range(n))

        def forward(self, x: Any) -> Any:
            parts = list(self.first(x).chunk(2, 1))
            for part in self.inner:
                parts.append(part(parts[-1]))
            return self.last(torch.cat(parts, 1))

    class Sppf(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.first, self.last = Conv(c, c // 2), Conv(2 * c, c)
            self.pool = nn.MaxPool2d(5, 1, 2)

        def forward(self, x: Any) -> Any:
            parts = [self.first(x)]
            for _ in range(3):
                parts.append(self.pool(parts[-1]))
            return self.last(torch.cat(parts, 1))

    class Detect(nn.Module):
        def __init__(self, channels: tuple[int, ...], classes: int = 80, bins: int = 16) -> None:
            super().__init__()
            self.classes, self.bins, self.strides = classes, bins, (8, 16, 32)
            wide = max(channels[0], min(classes, 100))
            self.boxes = nn.ModuleList(
                nn.Sequential(Conv(c, 64, 3), Conv(64, 64, 3), nn.Conv2d(64, 4 * bins, 1))
                for c in channels)  # fmt: skip
            self.scores = nn.ModuleList(
                nn.Sequential(Conv(c, wide, 3), Conv(wide, wide, 3), nn.Conv2d(wide, classes, 1))
                for c in channels)  # fmt: skip
            self.register_buffer("places", torch.arange(bins, dtype=torch.float).view(1, -1, 1, 1))

        def forward(self, levels: list[Any]) -> Any:
            found, anchors, strides = [], [], []
            for x, boxes, scores, stride in zip(
                levels, self.boxes, self.scores, self.strides, strict=True
            ):
                height, width = x.shape[2:]
                found.append(torch.cat((boxes(x), scores(x)), 1).flatten(2))
                ys, xs = torch.arange(height) + 0.5, torch.arange(width) + 0.5
                grid = torch.meshgrid(ys, xs, indexing="ij")
                anchors.append(torch.stack((grid[1], grid[0]), -1).view(-1, 2))
                strides.append(torch.full((height * width, 1), float(stride)))
            boxes, scores = torch.cat(found, 2).split((4 * self.bins, self.classes), 1)
            sides = boxes.view(boxes.shape[0], 4, self.bins, -1).transpose(2, 1).softmax(1)
            sides = (sides * self.places).sum(1)
            anchor, by = torch.cat(anchors).T[None], torch.cat(strides).T
            before, after = sides.chunk(2, 1)
            low, high = anchor - before, anchor + after
            box = torch.cat(((low + high) / 2, high - low), 1) * by
            return torch.cat((box, scores.sigmoid()), 1)

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), C2f(32, 32, 1, True),
                                      Conv(32, 64, 3, 2), C2f(64, 64, 2, True))  # fmt: skip
            self.middle = nn.Sequential(Conv(64, 128, 3, 2), C2f(128, 128, 2, True))
            self.deep = nn.Sequential(Conv(128, 256, 3, 2), C2f(256, 256, 1, True), Sppf(256))
            self.up = nn.Upsample(scale_factor=2, mode="nearest")
            self.merge_middle, self.merge_fine = C2f(384, 128), C2f(192, 64)
            self.down_fine, self.down_middle = Conv(64, 64, 3, 2), Conv(128, 128, 3, 2)
            self.again_middle, self.again_deep = C2f(192, 128), C2f(384, 256)
            self.head = Detect((64, 128, 256))

        def forward(self, x: Any) -> Any:
            fine = self.stem(x)
            middle = self.middle(fine)
            deep = self.deep(middle)
            inner = self.merge_middle(torch.cat((self.up(deep), middle), 1))
            outer = self.merge_fine(torch.cat((self.up(inner), fine), 1))
            middle = self.again_middle(torch.cat((self.down_fine(outer), inner), 1))
            deep = self.again_deep(torch.cat((self.down_middle(middle), deep), 1))
            return self.head([outer, middle, deep])

    return Yolo(), (_images(),)


def _unet() -> Made:
    """Group normalisation, a transposed convolution up, attention in the middle, as denoisers."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, c1: int, c2: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList((nn.GroupNorm(8, c1), nn.GroupNorm(8, c2)))
            self.convs = nn.ModuleList((nn.Conv2d(c1, c2, 3, padding=1),
                                        nn.Conv2d(c2, c2, 3, padding=1)))  # fmt: skip
            self.time = nn.Linear(64, c2)
            self.around = nn.Conv2d(c1, c2, 1) if c1 != c2 else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            inner = self.convs[0](nn.functional.silu(self.norms[0](x)))
            inner = inner + self.time(nn.functional.silu(time))[:, :, None, None]
            inner = self.convs[1](nn.functional.silu(self.norms[1](inner)))
            return inner + self.around(x)

    class Unet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 3, 3, padding=1)
            self.down = nn.ModuleList((Block(32, 32), Block(32, 64), Block(64, 128)))
            self.smaller = nn.ModuleList(nn.Conv2d(c, c, 3, 2, 1) for c in (32, 64))
            self.middle = Block(128, 128)
            self.norm = nn.GroupNorm(8, 128)
            self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
            self.up = nn.ModuleList((Block(256, 128), Block(128, 64), Block(64, 32)))
            self.larger = nn.ModuleList((nn.ConvTranspose2d(128, 64, 4, 2, 1),
                                         nn.ConvTranspose2d(64, 32, 4, 2, 1)))  # fmt: skip
            self.out = nn.GroupNorm(8, 32)

        def forward(self, x: Any, time: Any) -> Any:
            frequencies = torch.exp(torch.arange(32) * (-9.2 / 32))
            angles = time[:, None] * frequencies[None]
            time = torch.cat((angles.sin(), angles.cos()), 1)
            x = self.first(x)
            kept = []
            for level, block in enumerate(self.down):
                x = block(x, time)
                kept.append(x)
                x = self.smaller[level](x) if level < 2 else x
            x = self.middle(x, time)
            tokens = self.norm(x).flatten(2).transpose(1, 2)
            seen = self.attention(tokens, tokens, tokens, need_weights=False)[0]
            x = x + seen.transpose(1, 2).reshape(x.shape)
            for level, block in enumerate(self.up):
                x = block(torch.cat((x, kept.pop()), 1), time)
                x = self.larger[level](x) if level < 2 else x
            return self.last(nn.functional.silu(self.out(x)))

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


def _lstm() -> Made:
    import torch

    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(24, 32, num_layers=2, bidirectional=True, batch_first=True)
            self.linear = torch.nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.linear(self.lstm(x)[0])

    return Tagger(), (torch.randn(2, 12, 24),)


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
    "lstm": _lstm,
}
