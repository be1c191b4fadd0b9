"""A vLLM server as the generator. TESTED AGAINST A FAKE SERVER ONLY, never against vLLM.

    VLLM_SERVER_DEV_MODE=1 vllm serve FOLDER --enforce-eager      # on a GPU
    python -m beyond.services_run --model FOLDER --vllm http://localhost:8000

Sampling is POST /v1/completions with n = G, return_token_ids and logprobs: the sampled
ids come back, so nothing is encoded again. New weights are written as a model folder that the
server can read, too; then POST /pause, /collective_rpc (reload_weights with weights_path),
/reset_prefix_cache and /resume, which a server has in its developer mode. For large models vLLM
has transfers by NCCL (init_weight_transfer_engine, update_weights); they are not used here.

vLLM reports log-probs before the temperature is applied: with a temperature other than 1 start it
with --logprobs-mode processed_logprobs, else the weights of tis compare different things.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import httpx
from torch import Tensor

from beyond.services.messages import Completion, Group, groups_of
from lab15_run import counted

KEEP = 2  # folders of weights; older ones are removed


class VLLMGenerator:
    """A Generator that asks a vLLM server over HTTP.

    Args:
        url: of the server, such as http://localhost:8000.
        model: folder that the server was started with; config and tokenizer are copied from it.
        folder: where weights are written; the server must see it under the same path.
        max_tokens: longest response, the end token included.
        stop: texts that end a response.
        timeout: seconds for one request.
    """

    def __init__(self, url: str, model: str, folder: str | Path, max_tokens: int = 16,
                 stop: tuple[str, ...] = ("\n",), timeout: float = 600.0):
        self.url, self.model, self.folder = url.rstrip("/"), model, Path(folder)
        self.max_tokens, self.stop, self.timeout = max_tokens, list(stop), timeout
        self.version = 0

    async def generate(self, prompts: list[str], answers: list[str], G: int, temperature: float,
                       number: int) -> list[Group]:
        """Return groups; see messages.Generator.

        Raises:
            RuntimeError: the server does not answer, or leaves out ids or log-probs.
        """
        version = self.version
        body = {
            "model": self.model, "prompt": prompts, "n": G, "temperature": temperature,
            "top_p": 1.0, "top_k": 0, "max_tokens": self.max_tokens, "stop": self.stop,
            "logprobs": 1, "return_token_ids": True,
        }
        found = await self._post("/v1/completions", body)
        choices = sorted(found.get("choices", []), key=lambda choice: choice["index"])
        if len(choices) != len(prompts) * G:
            raise RuntimeError(f"{self.url}: asked for {len(prompts)} x {G} responses, "
                               f"got {len(choices)}")
        about = {"weight_version": version, "generator": self.url}
        rows = [
            {"episode_id": f"{number}.{i}", "prompt": prompts[i // G], "target": answers[i // G],
             "prompt_ids": self._part(choice, "prompt_token_ids"),
             "completion": self._completion(choice, about)}
            for i, choice in enumerate(choices)
        ]
        return groups_of(rows, G)

    def _completion(self, choice: dict, about: dict) -> Completion:
        """Return a choice as a Completion."""
        ids = self._part(choice, "token_ids")
        logp = self._part(self._part(choice, "logprobs"), "token_logprobs")
        if len(logp) != len(ids):
            raise RuntimeError(f"{self.url}: {counted(len(ids), 'token id')}, but "
                               f"{len(logp)} log-probs")
        more = {"finish_reason": choice.get("finish_reason")}
        return Completion(choice["text"], list(ids), [float(x) for x in logp], about | more)

    def _part(self, found: dict, name: str) -> Any:
        """Return a part of an answer that must be there."""
        if found.get(name) is None:
            raise RuntimeError(f"{self.url}: the answer has no {name}; vLLM 0.11 or newer gives "
                               "it with return_token_ids and logprobs")
        return found[name]

    async def update_weights(self, version: int, state: dict[str, Tensor]) -> None:
        """Write the weights and let the server read them.

        Raises:
            OSError: they cannot be written.
            RuntimeError: the server refuses.
        """
        path = await asyncio.to_thread(self._write, version, state)
        await self._post("/pause", None)
        try:
            await self._post("/collective_rpc", {
                "method": "reload_weights", "kwargs": {"weights_path": str(path)}})
            await self._post("/reset_prefix_cache", None)
        finally:
            await self._post("/resume", None)
        self.version = version

    def _write(self, version: int, state: dict[str, Tensor]) -> Path:
        """Write a model folder atomically; return its path."""
        from safetensors.torch import save_file

        path = self.folder.resolve() / f"version-{version}"
        temporary = path.with_name(f".{path.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for file in Path(self.model).glob("*.json"):
            if not file.name.endswith(".index.json"):
                shutil.copy(file, temporary)
        # A Policy keeps its model under the name "model"; tied weights must be written apart.
        named = {k.removeprefix("model."): v.clone().contiguous() for k, v in state.items()}
        save_file(named, temporary / "model.safetensors", {"format": "pt"})
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
        old = sorted(self.folder.glob("version-*"), key=lambda p: int(p.name.split("-")[1]))
        for folder in old[:-KEEP]:
            shutil.rmtree(folder, ignore_errors=True)
        return path

    async def _post(self, path: str, body: dict | None) -> dict:
        """Return the answer of a POST request.

        Raises:
            RuntimeError: the server does not answer, refuses, or its answer is not JSON.
        """
        try:
            async with httpx.AsyncClient(timeout=self.timeout) as client:
                answer = await client.post(self.url + path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RuntimeError(
                f"{self.url}{path}: no answer ({error}); is the server up?") from None
        if answer.is_error:
            why = answer.text[:300].replace("\n", " ")
            raise RuntimeError(f"{self.url}{path}: HTTP {answer.status_code} {why}")
        try:
            found = answer.json() if answer.text.strip() else {}
        except ValueError:
            raise RuntimeError(
                f"{self.url}{path}: the answer is no JSON: {answer.text:.80}") from None
        return found if isinstance(found, dict) else {}
