"""A checkpoint's chat template and tokenizer, with a question that can spell anything and stays a question.

The template is rendered around a mark, so it never sees the question. Its own control tokens are then written under secret
names that only ``_secret`` knows: whatever a person types, it is no control token, and everything else about the text is
encoded exactly as the checkpoint's own tokenizer would.
"""

from __future__ import annotations

import json
import re
import secrets

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from fovea_core.targets.base import TargetError


class Chat:
    """One user turn with a picture and a question, and the begin of the answer.

    ``image_token`` is the token that stands for the picture in the template, ``tokenizer`` the plain one for pieces of text.
    Raises TargetError for a checkpoint without a chat template, or with one that does not show picture and question once each.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, image_token_id: int, template: str | None = None) -> None:
        template = template or tokenizer.chat_template
        if isinstance(template, dict):  # several under names
            template = template.get("default")
        if not isinstance(template, str):
            raise TargetError("This checkpoint has no chat template, so nobody knows how to ask it.")
        self.tokenizer: Tokenizer = tokenizer.backend_tokenizer
        self.image_token_id = image_token_id
        self.image_token = self.tokenizer.id_to_token(image_token_id)
        if self.image_token is None:
            raise TargetError(f"The tokenizer has no token {image_token_id}, which stands for the picture.")
        self._secret, self._names = _secret(self.tokenizer)
        self._control = re.compile("|".join(map(re.escape, sorted(self._names, key=len, reverse=True))))
        before, after = self._around(tokenizer, template)
        begin = tokenizer.bos_token
        self._add_special = begin is None or not before.startswith(begin)  # a template that writes it needs no second one
        self._before, self._after = before, self._hide(after)

    def _around(self, tokenizer: PreTrainedTokenizerFast, template: str) -> tuple[str, str]:
        """What stands before and behind the question."""
        mark = f"question{secrets.token_hex(8)}"
        turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": mark}]}
        try:
            rendered = render_jinja_template(
                [[turn]], chat_template=template, add_generation_prompt=True, **tokenizer.special_tokens_map
            )
        except Exception as error:  # a template is a program of its own: anything may be wrong with it
            raise TargetError(f"The chat template of this checkpoint fails: {str(error)[:200]}") from error
        text = rendered[0][0] if isinstance(rendered, tuple) else rendered[0]
        parts = text.split(mark)
        if len(parts) != 2 or parts[0].count(self.image_token) != 1 or self.image_token in parts[1]:
            raise TargetError("The chat template of this checkpoint does not show one picture and then one question.")
        return parts[0], parts[1]

    def _hide(self, text: str) -> str:
        """Text of the template with its control tokens under their secret names."""
        return self._control.sub(lambda found: self._names[found[0]], text)

    def prompt(self, question: str, picture: str, counts: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids of the whole prompt and the half-open ranges of its image placeholders.

        picture: what the family writes for a picture, with one image token for every count; counts: placeholders that each of
        these becomes. Raises TargetError where the tokenizer does not give as many image tokens.
        """
        before = self._hide(self._before.replace(self.image_token, picture))
        short = self._secret.encode(before + question + self._after, add_special_tokens=self._add_special).ids
        if short.count(self.image_token_id) != len(counts):
            raise TargetError(f"The prompt has {short.count(self.image_token_id)} image tokens for {len(counts)} views.")
        ids, spans, left = [], [], list(reversed(counts))
        for token in short:
            if token == self.image_token_id:
                count = left.pop()
                spans.append((len(ids), len(ids) + count))
                ids += [token] * count
            else:
                ids.append(token)
        return ids, [(first, last) for first, last in spans if last > first]


def _secret(tokenizer: Tokenizer) -> tuple[Tokenizer, dict[str, str]]:
    """A twin of ``tokenizer`` whose added tokens have names that nobody can type, and these names. Ids are the same."""
    state, nonce = json.loads(tokenizer.to_str()), secrets.token_hex(12)
    names = {token["content"]: f"{nonce}{number}x" for number, token in enumerate(state["added_tokens"])}
    for token in state["added_tokens"]:
        token["content"] = names[token["content"]]
    model = state["model"]
    if isinstance(model.get("vocab"), dict):
        model["vocab"] = {names.get(token, token): number for token, number in model["vocab"].items()}
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    try:
        twin = Tokenizer.from_str(json.dumps(state))
    except Exception as error:  # the library raises nothing narrower
        raise TargetError(f"This tokenizer cannot keep typed control tokens apart: {str(error)[:200]}") from error
    wrong = [name for name, hidden in names.items() if twin.token_to_id(hidden) != tokenizer.token_to_id(name)]
    if wrong or not names:
        raise TargetError(f"This tokenizer cannot keep typed control tokens apart: {', '.join(wrong[:3]) or 'it has none'}.")
    return twin, names
