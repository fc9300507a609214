"""transformers' own decoding of the same request, for timings: greedy ``generate``, and the same with prompt lookup."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from transformers import GenerationConfig

from fovea_core.targets.geometry import letterbox
from fovea_core.targets.llava import LlavaTarget

#: Tokens that transformers' prompt lookup copies at most, its documented example and the paper's setting for PLD.
LOOKUP_TOKENS = 10


class Rival:
    """``generate`` of a LLaVA's own transformers model, every default that would change a token overridden.

    ``prompt_ids``: the target's prompt for the request (TargetRun.prompt_ids), so that both read the same tokens.
    """

    def __init__(self, target: LlavaTarget, budget: int, lookup: bool = False) -> None:
        self.target = target
        self.config = GenerationConfig(
            max_new_tokens=budget,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            use_cache=True,
            eos_token_id=sorted(target.eos_ids),
            pad_token_id=min(target.eos_ids),
            prompt_lookup_num_tokens=LOOKUP_TOKENS if lookup else None,
        )

    @torch.inference_mode()
    def decode(self, image: Image.Image, prompt_ids: list[int]) -> list[int]:
        """Token ids of the answer, its EOS included. The picture is preprocessed as the target does it, and counted."""
        model, settings = self.target.model, self.target.image
        square, _ = letterbox(np.asarray(image.convert("RGB")), settings.image_size, settings.fill)
        pixels = (torch.from_numpy(square).permute(2, 0, 1)[None].float() / 255 - settings.mean) / settings.std
        ids = torch.tensor([prompt_ids], device=model.device)
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=pixels.to(model.device, model.dtype),
            generation_config=self.config,
        )
        return out[0, len(prompt_ids) :].tolist()
