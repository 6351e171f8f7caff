"""Modules of torch that no package here ships: a denoiser's UNet, a detector like YOLOv8n."""

from __future__ import annotations

from typing import Any

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
